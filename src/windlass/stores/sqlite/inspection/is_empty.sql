-- is_empty: whether nobody has used it yet, not even a node that was started and stopped.
SELECT NOT (EXISTS (SELECT 1 FROM task)
            OR EXISTS (SELECT 1 FROM workflow)
            OR EXISTS (SELECT 1 FROM placeholder)
            OR EXISTS (SELECT 1 FROM queue)
            OR EXISTS (SELECT 1 FROM control)
            OR EXISTS (SELECT 1 FROM audit)
            OR EXISTS (SELECT 1 FROM tally)
            OR EXISTS (SELECT 1 FROM handler)
            OR EXISTS (SELECT 1 FROM cron)
            OR EXISTS (SELECT 1 FROM session));
