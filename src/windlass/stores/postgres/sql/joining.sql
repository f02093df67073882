-- joining: return some tasks that were submitted in a caller's transaction and not checked again since its commit.
SELECT child FROM windlass.joining LIMIT :limit;
