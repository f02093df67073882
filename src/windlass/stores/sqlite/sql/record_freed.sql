-- record_freed: write down a scope of limits in which a lease has ended.
-- batch: queue text, tenant text, handler text, limit_key text
INSERT INTO freed (queue, tenant, handler, limit_key) VALUES (:queue, :tenant, :handler, :limit_key);
