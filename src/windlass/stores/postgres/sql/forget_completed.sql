-- forget_completed: remove tasks from the completed ones.
-- batch: id uuid
DELETE FROM windlass.completed WHERE id = ANY (:id::uuid[]);
