-- forget_progress: remove how far removed tasks had come.
-- batch: id blob
DELETE FROM progress WHERE task = :id;
