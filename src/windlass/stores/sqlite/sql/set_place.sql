-- set_place: set the place of a task in its queue. A runnable one is removed before and added after it.
-- batch: id blob, band integer, rank integer, tie integer
UPDATE task
   SET band = :band, rank = :rank, tie = :tie,
       lot = CASE WHEN EXISTS (SELECT 1 FROM queue WHERE name = task.queue AND fair = 1) THEN lane(task.tenant) ELSE 0 END
 WHERE id = :id;
