-- set_epoch: the epoch of a store that was copied here, raised.
UPDATE meta SET epoch = :epoch;
