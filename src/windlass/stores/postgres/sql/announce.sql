-- announce: add ended tasks that still have dependents to `ended`, so that their edges are resolved even if this
-- process dies.
-- This is a separate statement after the rows are locked. A statement that also ended the tasks would look for edges
-- with a snapshot from before it waited for their submit, and miss them.
-- batch: parent uuid, how text
INSERT INTO windlass.ended (parent, how)
SELECT i.parent, i.how
  FROM unnest(:parent::uuid[], :how::text[]) AS i (parent, how)
 CROSS JOIN LATERAL (
       -- ORDER BY: without it, a planner that has seen one parent with very many children reads the table until it
       -- meets an edge of this parent, which is all of the table for each parent that has none.
       SELECT FROM windlass.edge AS e WHERE e.parent = i.parent AND NOT e.resolved ORDER BY e.child LIMIT 1) AS open_edge
 ORDER BY i.parent
    ON CONFLICT (parent) DO UPDATE SET how = excluded.how, after = excluded.after
RETURNING parent;
