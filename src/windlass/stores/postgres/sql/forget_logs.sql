-- forget_logs: remove the output of removed tasks.
-- batch: id uuid
DELETE FROM windlass.log WHERE task = ANY (:id::uuid[]);
