-- reach: who waits for these ends, at most so many for each; with each its task, locked, unless somebody is busy with it.
-- A statement of its own, after the ends are locked: one that also ended them would look for edges with a snapshot from
-- before it waited for their submit, and miss them. It never waits, so it may come after any other lock.
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
           finished, attempts, crashes, losses, generation, cancel_requested, cancel_by, reason
      FROM windlass.task
     WHERE id = ANY (ARRAY(SELECT child FROM open_edge))
       FOR UPDATE SKIP LOCKED
)
SELECT open_edge.parent, open_edge.child, free.*
  FROM open_edge LEFT JOIN free ON free.id = open_edge.child;
