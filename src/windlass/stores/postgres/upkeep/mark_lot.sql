-- mark_lot: move the mark of a closed partition: everything before it is gone for good.
UPDATE windlass.lot SET band = :band, rank = :rank, tie = :tie, id = :id WHERE queue = :queue AND number = :number;
