-- reopen_edges: these are waited for again.
-- batch: child uuid, parent uuid
UPDATE windlass.edge AS e SET resolved = false
  FROM unnest(:child::uuid[], :parent::uuid[]) AS i (child, parent)
 WHERE e.child = i.child AND e.parent = i.parent;
