-- remove_cron: delete a cron. Returns no row if it does not exist.
DELETE FROM windlass.cron WHERE name = :name RETURNING name;
