-- forget_results: remove the results of removed tasks.
-- batch: id blob
DELETE FROM result WHERE id = :id;
