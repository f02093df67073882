-- forget_logs: remove the output of removed tasks.
-- batch: id blob
DELETE FROM log WHERE task = :id;
