-- reach: return the dependents of ended tasks, up to a limit for each, with their locked rows; NULL if others have
-- locked them.
-- This is a separate statement after the ends are locked: one that also ended them would look for edges with a snapshot
-- from before it waited for their submit, and miss them. It never waits, so it may follow any other lock.
-- batch: parent uuid
WITH open_edge AS MATERIALIZED (
    SELECT i.parent, e.child
      FROM unnest(:parent::uuid[]) AS i (parent)
     CROSS JOIN LATERAL (
           SELECT e.child FROM windlass.edge AS e
            WHERE e.parent = i.parent AND NOT e.resolved
            ORDER BY e.child
            LIMIT :limit) AS e
), free AS MATERIALIZED (
    SELECT id, queue, tenant, state, band, rank, tie, due, expires, waiting, on_failure, fence, session, claimed,
           finished, attempts, crashes, losses, generation, cancel_requested, cancel_by, reason, wait
      FROM windlass.task
     WHERE id = ANY (ARRAY(SELECT child FROM open_edge))
       FOR UPDATE SKIP LOCKED
)
SELECT open_edge.parent, open_edge.child, free.*
  FROM open_edge LEFT JOIN free ON free.id = open_edge.child;
