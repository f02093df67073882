-- ready_lanes: return lanes of a queue whose tasks a limit held back, and which may start now, in turn.
SELECT tenant, name, lot
  FROM windlass.parked
 WHERE queue = :queue AND ready <= :now::bigint AND name <> ''
 ORDER BY ready, tenant, name
 LIMIT :limit;
