-- attempts: return the newest attempts of a task: those that failed, and the one that completed.
SELECT * FROM (
    SELECT fence, session, started, ended, state, error FROM attempt WHERE task = :task
     UNION ALL
    SELECT fence, session, claimed, finished, 'completed', NULL FROM completed WHERE id = :task
     ORDER BY fence DESC
     LIMIT :limit
) AS newest
 ORDER BY fence;
