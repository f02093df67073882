-- count_ahead: count the runnable tasks before a task in its queue, up to a limit.
SELECT count(*) FROM (
    SELECT 1
      FROM task AS it JOIN task AS t
        ON t.queue = it.queue AND t.state = 'runnable' AND (t.band, t.rank, t.tie, t.id) < (it.band, it.rank, it.tie, it.id)
     WHERE it.id = :task AND it.state = 'runnable'
     LIMIT :limit);
