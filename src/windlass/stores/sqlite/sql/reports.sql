-- reports: what the nodes that are alive have said last, and how long ago.
-- A session from before the machine was started is over.
SELECT id, node, report, max(0, :now - reported)
  FROM session
 WHERE lost = 0 AND reported IS NOT NULL AND boot = :boot AND renewed + ttl >= :now
 ORDER BY id DESC;
