-- submit_bodies: insert the bodies of tasks: what their callers wrote.
-- batch: id blob, handler text, args text, rules text, workflow text, workflow_tenant text, key text, fingerprint blob,
--   priority integer, deadline integer, first_due integer, submitted integer
INSERT INTO body (id, handler, args, rules, workflow, workflow_tenant, key, fingerprint, priority, deadline, first_due,
                  submitted)
VALUES (:id, :handler, :args, :rules, :workflow, :workflow_tenant, :key, :fingerprint, :priority, :deadline, :first_due,
        :submitted);
