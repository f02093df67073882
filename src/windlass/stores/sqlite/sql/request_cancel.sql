-- request_cancel: ask the holder of a lease to stop.
-- batch: id blob
UPDATE leased SET cancel_requested = 1 WHERE id = :id;
