-- submit: insert a task. `add_runnable` makes it runnable if it is queued.
-- moves: new -> waiting | scheduled | runnable | completed | cancelled | expired
-- batch: id blob, queue text, tenant text, state text, band integer, rank integer, tie integer, due integer,
--   expires integer, waiting integer, on_failure text, finished integer, reason text, kind integer, handler text, args text,
--   rules text, workflow text, workflow_tenant text, key text, fingerprint blob, priority integer, deadline integer,
--   first_due integer, submitted integer
INSERT INTO task
       (id, queue, tenant, state, band, rank, tie, due, expires, waiting, on_failure, finished, reason, kind, handler,
        args, rules, workflow, workflow_tenant, key, fingerprint, priority, deadline, first_due, submitted, lot)
VALUES (:id, :queue, :tenant, :state, :band, :rank, :tie, :due, :expires, :waiting, :on_failure, :finished, :reason,
        :kind, :handler, :args, :rules, :workflow, :workflow_tenant, :key, :fingerprint, :priority, :deadline, :first_due,
        :submitted, CASE WHEN EXISTS (SELECT 1 FROM queue WHERE name = :queue AND fair = 1) THEN lane(:tenant) ELSE 0 END);
