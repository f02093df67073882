-- reports: what the nodes that are alive have said last, and how long ago.
SELECT id, node, report, greatest(0, (SELECT windlass.clock(:now)) - reported)
  FROM windlass.session
 WHERE NOT lost AND reported IS NOT NULL AND renewed + ttl >= (SELECT windlass.clock(:now))
 ORDER BY id DESC;
