-- ancestors: the open edges above a task, nearest first, as far as the budget goes. The LIMIT stops the recursion.
-- OFFSET 0: step by step, by id; a planner that expects many steps would read all of the table at each.
WITH RECURSIVE above (child, parent) AS (
    SELECT child, parent FROM windlass.edge WHERE child = :task AND NOT resolved
     UNION
    SELECT e.child, e.parent
      FROM above CROSS JOIN LATERAL (
           SELECT child, parent FROM windlass.edge WHERE edge.child = above.parent AND NOT resolved OFFSET 0) AS e
)
SELECT child, parent FROM above LIMIT :limit;
