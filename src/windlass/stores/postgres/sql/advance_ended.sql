-- advance_ended: how far the telling has come, for ends with very many dependents.
-- batch: parent uuid, after uuid
UPDATE windlass.ended AS d SET after = i.after
  FROM unnest(:parent::uuid[], :after::uuid[]) AS i (parent, after)
 WHERE d.parent = i.parent;
