-- is_empty: return whether the database has never been used, not even by a node.
SELECT NOT (EXISTS (SELECT 1 FROM task)
            OR EXISTS (SELECT 1 FROM workflow)
            OR EXISTS (SELECT 1 FROM placeholder)
            OR EXISTS (SELECT 1 FROM queue)
            OR EXISTS (SELECT 1 FROM control)
            OR EXISTS (SELECT 1 FROM audit)
            OR EXISTS (SELECT 1 FROM count_delta)
            OR EXISTS (SELECT 1 FROM handler)
            OR EXISTS (SELECT 1 FROM cron)
            OR EXISTS (SELECT 1 FROM session));
