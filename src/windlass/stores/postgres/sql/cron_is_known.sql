-- cron_is_known: a row when there is such a cron.
SELECT name FROM windlass.cron WHERE name = :name;
