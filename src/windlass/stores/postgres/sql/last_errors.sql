-- last_errors: the error that ended each of some failed tasks, if an attempt did, and the reason.
-- batch: id uuid
SELECT t.id, t.reason, (SELECT max(error) FROM windlass.attempt WHERE task = t.id AND ended = t.finished) AS error
  FROM unnest(:id::uuid[]) AS i (id)
  JOIN windlass.task AS t USING (id);
