-- end_leases: remove leases that `lock_leased` has locked. Return those that count for limits or fair queues.
-- batch: id uuid
WITH gone AS (
    DELETE FROM windlass.leased
     WHERE ctid = ANY (ARRAY(
           SELECT l.place
             FROM unnest(:id::uuid[]) AS i (id)
            CROSS JOIN LATERAL (SELECT l.ctid AS place FROM windlass.leased AS l WHERE l.id = i.id OFFSET 0) AS l))
    RETURNING id, queue, tenant, claimed, charge, handler, limit_key, limited
)
SELECT id, queue, tenant, claimed, charge, handler, limit_key, limited FROM gone WHERE limited OR charge IS NOT NULL;
