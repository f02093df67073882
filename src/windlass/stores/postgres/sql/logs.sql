-- logs: return the output of the newest attempts of a task, and whether they still run.
SELECT fence, text,
       EXISTS (SELECT FROM windlass.leased WHERE leased.id = :task AND leased.fence = newest.fence) AS running
  FROM (SELECT fence, text FROM windlass.log WHERE task = :task ORDER BY fence DESC LIMIT :limit) AS newest
 ORDER BY fence;
