-- set_place: give a task its new place in its queue.
-- batch: id blob, band integer, rank integer, tie integer
UPDATE task SET band = :band, rank = :rank, tie = :tie WHERE id = :id;
