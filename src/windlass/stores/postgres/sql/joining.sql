-- joining: some tasks that came inside a caller's transaction and have not been looked at since its commit.
SELECT child FROM windlass.joining LIMIT :limit;
