-- is_empty: whether nobody has used it yet, not even a node that was started and stopped.
SELECT NOT (EXISTS (SELECT 1 FROM windlass.task)
            OR EXISTS (SELECT 1 FROM windlass.workflow)
            OR EXISTS (SELECT 1 FROM windlass.placeholder)
            OR EXISTS (SELECT 1 FROM windlass.queue)
            OR EXISTS (SELECT 1 FROM windlass.control)
            OR EXISTS (SELECT 1 FROM windlass.audit)
            OR EXISTS (SELECT 1 FROM windlass.tally)
            OR EXISTS (SELECT 1 FROM windlass.handler)
            OR EXISTS (SELECT 1 FROM windlass.cron)
            OR EXISTS (SELECT 1 FROM windlass.session));
