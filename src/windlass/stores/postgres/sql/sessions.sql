-- sessions: the sessions that are alive, and those closed or lost of late.
SELECT id, node, about, greatest(0, windlass.clock(:now) - renewed), lost
  FROM windlass.session
 WHERE NOT lost OR windlass.clock(:now) - renewed < :age::bigint
 ORDER BY id DESC;
