-- overdue_bulks: return operations that have made no progress for a while.
SELECT id, action, decided, reason, grace FROM bulk WHERE expires <= :now LIMIT :limit;
