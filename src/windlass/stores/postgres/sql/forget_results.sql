-- forget_results: remove what removed tasks gave back.
-- batch: id uuid
DELETE FROM windlass.result WHERE id = ANY (:id::uuid[]);
