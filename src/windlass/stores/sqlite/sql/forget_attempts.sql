-- forget_attempts: remove the history of removed tasks.
-- batch: id blob
DELETE FROM attempt WHERE task = :id;
