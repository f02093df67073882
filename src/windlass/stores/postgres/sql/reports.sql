-- reports: return the latest reports of live nodes and their ages.
SELECT id, node, report, greatest(0, (SELECT windlass.clock(:now)) - reported)
  FROM windlass.session
 WHERE NOT lost AND reported IS NOT NULL AND renewed + ttl >= (SELECT windlass.clock(:now))
 ORDER BY id DESC;
