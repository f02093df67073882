-- attempts: return the attempts of a task: those that failed, and the one that completed.
SELECT fence, session, started, ended, state, error FROM windlass.attempt WHERE task = :task
 UNION ALL
SELECT fence, session, claimed, finished, state, NULL FROM windlass.task WHERE id = :task AND state = 'completed'
 ORDER BY fence;
