-- overdue_bulks: operations that nobody has been at work on for a while.
SELECT id, action, decided, reason, grace FROM bulk WHERE expires <= :now LIMIT :limit;
