-- forget_logs: remove what removed tasks printed.
-- batch: id uuid
DELETE FROM windlass.log WHERE task = ANY (:id::uuid[]);
