-- is_empty: return whether the database has never been used, not even by a node.
SELECT NOT (EXISTS (SELECT 1 FROM windlass.task)
            OR EXISTS (SELECT 1 FROM windlass.workflow)
            OR EXISTS (SELECT 1 FROM windlass.placeholder)
            OR EXISTS (SELECT 1 FROM windlass.queue)
            OR EXISTS (SELECT 1 FROM windlass.control)
            OR EXISTS (SELECT 1 FROM windlass.audit)
            OR EXISTS (SELECT 1 FROM windlass.count_delta)
            OR EXISTS (SELECT 1 FROM windlass.handler)
            OR EXISTS (SELECT 1 FROM windlass.cron)
            OR EXISTS (SELECT 1 FROM windlass.session));
