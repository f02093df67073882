-- latest_output: return the output of the newest attempt of a task, and whether it still runs.
-- batch: id blob
SELECT task, fence, text,
       EXISTS (SELECT 1 FROM leased WHERE leased.id = log.task AND leased.fence = log.fence) AS running
  FROM log
 WHERE task = :id
 ORDER BY fence DESC
 LIMIT 1;
