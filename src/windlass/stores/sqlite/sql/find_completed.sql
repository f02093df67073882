-- find_completed: return a task if it is completed.
-- batch: id blob
SELECT id, fence, session, claimed, finished FROM completed WHERE id = :id;
