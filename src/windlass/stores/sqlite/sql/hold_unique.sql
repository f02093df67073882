-- hold_unique: return who holds a lock of unique tasks, until when, and 0, because none is new. It inserts none, because
-- nobody else writes meanwhile: `take_unique` does.
-- batch: id blob, task blob, period integer
SELECT l.id, l.task, l.until, 0
  FROM (SELECT :id AS id, :task AS task, :period AS period) AS i
  JOIN unique_lock AS l ON l.id = i.id;
