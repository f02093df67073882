-- submit_bodies: insert the bodies of tasks: what their callers wrote.
-- batch: id uuid, handler text, args text, rules text, workflow text, workflow_tenant text, key text, fingerprint uuid,
--   priority integer, deadline bigint, first_due bigint, submitted bigint
INSERT INTO windlass.body
       (id, handler, args, rules, workflow, workflow_tenant, key, fingerprint, priority, deadline, first_due, submitted)
SELECT * FROM unnest(:id::uuid[], :handler::text[], :args::text[], :rules::text[], :workflow::text[],
                     :workflow_tenant::text[], :key::text[], :fingerprint::uuid[], :priority::integer[],
                     :deadline::bigint[], :first_due::bigint[], :submitted::bigint[]);
