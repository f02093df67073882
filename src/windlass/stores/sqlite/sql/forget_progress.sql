-- forget_progress: remove the progress of removed tasks.
-- batch: id blob
DELETE FROM progress WHERE task = :id;
