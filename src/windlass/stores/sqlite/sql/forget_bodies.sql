-- forget_bodies: remove the bodies of removed tasks.
-- batch: id blob
DELETE FROM body WHERE id = :id;
