-- forget_unique: delete locks of unique tasks.
-- batch: id uuid
DELETE FROM windlass.unique_lock AS l USING unnest(:id::uuid[]) AS i (id) WHERE l.id = i.id;
