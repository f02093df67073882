-- pending: return some ended tasks with unresolved edges.
SELECT parent FROM windlass.ended LIMIT :limit;
