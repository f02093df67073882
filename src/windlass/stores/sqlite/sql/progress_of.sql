-- progress_of: how far these tasks have come.
-- batch: id blob
SELECT task, fence, share, message, at FROM progress WHERE task = :id;
