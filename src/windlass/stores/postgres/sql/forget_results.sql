-- forget_results: remove the results of removed tasks.
-- batch: id uuid
DELETE FROM windlass.result WHERE id = ANY (:id::uuid[]);
