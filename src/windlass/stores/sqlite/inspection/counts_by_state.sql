-- counts_by_state: return the number of tasks by state, from the counts.
SELECT state, sum(tasks) FROM count_delta GROUP BY state HAVING sum(tasks) > 0 ORDER BY state;
