-- drop_lot: a closed lot is empty.
DELETE FROM windlass.lot WHERE queue = :queue AND number = :number;
