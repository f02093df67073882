-- advance_ended: record how far the edges of a task with very many dependents are resolved.
-- batch: parent uuid, after uuid
UPDATE windlass.ended AS d SET after = i.after
  FROM unnest(:parent::uuid[], :after::uuid[]) AS i (parent, after)
 WHERE d.parent = i.parent;
