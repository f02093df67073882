-- forget_logs: remove what removed tasks printed.
-- batch: id blob
DELETE FROM log WHERE task = :id;
