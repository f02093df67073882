-- forget_completed: remove a task from the completed ones.
-- batch: id blob
DELETE FROM completed WHERE id = :id;
