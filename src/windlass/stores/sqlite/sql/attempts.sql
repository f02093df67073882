-- attempts: the attempts of a task that did not end well, and the one that did.
SELECT fence, session, started, ended, state, error FROM attempt WHERE task = :task
 UNION ALL
SELECT fence, session, claimed, finished, state, NULL FROM task WHERE id = :task AND state = 'completed'
 ORDER BY fence;
