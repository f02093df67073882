-- forget_results: remove what removed tasks gave back.
-- batch: id blob
DELETE FROM result WHERE id = :id;
