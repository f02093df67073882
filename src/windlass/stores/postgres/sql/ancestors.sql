-- ancestors: the open edges above a task, nearest first, as far as the budget goes. The LIMIT stops the recursion.
WITH RECURSIVE above (child, parent) AS (
    SELECT child, parent FROM windlass.edge WHERE child = :task AND NOT resolved
     UNION
    SELECT e.child, e.parent FROM above JOIN windlass.edge AS e ON e.child = above.parent AND NOT e.resolved
)
SELECT child, parent FROM above LIMIT :limit;
