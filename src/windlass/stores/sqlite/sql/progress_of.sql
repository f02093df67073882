-- progress_of: return the latest progress of tasks.
-- batch: id blob
SELECT task, fence, share, message, at FROM progress WHERE task = :id;
