-- progress_of: return the latest progress of tasks.
-- batch: id uuid
SELECT task, fence, share, message, at FROM windlass.progress WHERE task = ANY (:id::uuid[]);
