-- reports: return the latest reports of live nodes and their ages.
-- A session from before the machine's boot is lost.
SELECT id, node, report, max(0, :now - reported)
  FROM session
 WHERE lost = 0 AND reported IS NOT NULL AND boot = :boot AND renewed + ttl >= :now
 ORDER BY id DESC;
