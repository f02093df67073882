-- logs: return the output of the newest finished attempts of a task.
SELECT * FROM (SELECT fence, text FROM windlass.log WHERE task = :task ORDER BY fence DESC LIMIT :limit) AS newest ORDER BY fence;
