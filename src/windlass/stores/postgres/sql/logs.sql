-- logs: return the output of the finished attempts of a task.
SELECT fence, text FROM windlass.log WHERE task = :task ORDER BY fence;
