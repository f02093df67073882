-- forget_bodies: remove what the callers of removed tasks wrote.
-- batch: id blob
DELETE FROM body WHERE id = :id;
