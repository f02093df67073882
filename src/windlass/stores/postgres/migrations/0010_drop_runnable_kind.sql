-- runnable_of_kind has replaced it, also for programs of the schema before. Safe to run twice.
DROP INDEX IF EXISTS windlass.runnable_kind;
