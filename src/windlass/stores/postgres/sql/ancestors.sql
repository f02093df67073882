-- ancestors: return the open edges above a task, nearest first, up to a limit, which stops the recursion.
-- OFFSET 0 forces lookups by id; otherwise the planner might read the whole table for each level.
WITH RECURSIVE above (child, parent) AS (
    SELECT child, parent FROM windlass.edge WHERE child = :task AND NOT resolved
     UNION
    SELECT e.child, e.parent
      FROM above CROSS JOIN LATERAL (
           SELECT child, parent FROM windlass.edge WHERE edge.child = above.parent AND NOT resolved OFFSET 0) AS e
)
SELECT child, parent FROM above LIMIT :limit;
