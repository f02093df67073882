-- cron_is_known: return a row if the cron exists.
SELECT name FROM windlass.cron WHERE name = :name;
