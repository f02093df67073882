-- set_error_group: note the group of failed tasks that ended without an attempt.
-- batch: id uuid, error_group text
UPDATE windlass.task AS t
   SET error_group = i.error_group
  FROM unnest(:id::uuid[], :error_group::text[]) AS i (id, error_group)
 WHERE t.id = i.id;
