-- remove_queue: delete the settings of a queue. Returns no row if it has none.
DELETE FROM queue WHERE name = :name RETURNING name;
