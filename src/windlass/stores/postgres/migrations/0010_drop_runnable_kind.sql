-- compatible_from: 7
-- Programs of the previous release use runnable_of_kind as well. Safe to run twice.
DROP INDEX IF EXISTS windlass.runnable_kind;
