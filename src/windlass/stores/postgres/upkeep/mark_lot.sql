-- mark_lot: everything of a closed lot before this place is gone for good.
UPDATE windlass.lot SET band = :band, rank = :rank, tie = :tie, id = :id WHERE queue = :queue AND number = :number;
