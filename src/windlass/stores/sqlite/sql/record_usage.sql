-- record_usage: write down attempts of fair queues that have ended.
-- batch: queue text, tenant text, ran integer, charge integer, attempts integer, at integer
INSERT INTO usage (queue, tenant, ran, charge, attempts, at) VALUES (:queue, :tenant, :ran, :charge, :attempts, :at);
