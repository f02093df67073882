-- forget_attempts: remove the attempts of removed tasks.
-- batch: id uuid
DELETE FROM windlass.attempt WHERE task = ANY (:id::uuid[]);
