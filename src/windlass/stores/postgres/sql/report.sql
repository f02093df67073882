-- report: store a node's report about its pools. Returns no row if its session is lost.
UPDATE windlass.session SET report = :report, reported = (SELECT windlass.clock(:now))
 WHERE id = :session AND NOT lost
RETURNING id;
