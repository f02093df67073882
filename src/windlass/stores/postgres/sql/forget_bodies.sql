-- forget_bodies: remove what the callers of removed tasks wrote.
-- batch: id uuid
DELETE FROM windlass.body WHERE id = ANY (:id::uuid[]);
