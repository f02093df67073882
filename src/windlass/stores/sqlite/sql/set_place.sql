-- set_place: set the places of tasks in their queues.
-- batch: id blob, band integer, rank integer, tie integer
UPDATE task SET band = :band, rank = :rank, tie = :tie WHERE id = :id;
