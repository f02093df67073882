-- next_due: return when the next task is due.
SELECT min(due) FROM windlass.task WHERE state IN ('scheduled', 'retrying');
