-- park: move a runnable task to another lane.
-- batch: queue text, lot integer, band integer, rank integer, tie integer, id blob, target integer
UPDATE runnable SET lot = :target
 WHERE queue = :queue AND lot = :lot AND band = :band AND rank = :rank AND tie = :tie AND id = :id
RETURNING id;
