-- drop_lot: remove an empty closed partition.
DELETE FROM windlass.lot WHERE queue = :queue AND number = :number;
