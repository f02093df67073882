-- pending: return some ended tasks with unresolved edges.
SELECT parent FROM ended LIMIT :limit;
