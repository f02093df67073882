-- forget_bodies: remove the bodies of removed tasks.
-- batch: id uuid
DELETE FROM windlass.body WHERE id = ANY (:id::uuid[]);
