-- take: remove a claimed task from the runnable ones.
-- moves: runnable -> leased
-- batch: queue text, lot integer, band integer, rank integer, tie integer, id blob
DELETE FROM runnable WHERE queue = :queue AND lot = :lot AND band = :band AND rank = :rank AND tie = :tie AND id = :id;
