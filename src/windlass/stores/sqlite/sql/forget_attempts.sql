-- forget_attempts: remove the attempts of removed tasks.
-- batch: id blob
DELETE FROM attempt WHERE task = :id;
