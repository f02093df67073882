-- ancestors: return the open edges above a task, nearest first, up to a limit, which stops the recursion.
WITH RECURSIVE above (child, parent) AS (
    SELECT child, parent FROM edge WHERE child = :task AND resolved = 0
     UNION
    SELECT e.child, e.parent FROM above JOIN edge AS e ON e.child = above.parent AND e.resolved = 0
)
SELECT child, parent FROM above LIMIT :limit;
