-- remove_cron: delete a cron. Returns no row if it does not exist.
DELETE FROM cron WHERE name = :name RETURNING name;
