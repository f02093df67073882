-- progress_of: how far these tasks have come.
-- batch: id uuid
SELECT task, fence, share, message, at FROM windlass.progress WHERE task = ANY (:id::uuid[]);
