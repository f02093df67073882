-- report: keep what a node says of its pools. No row back means that its session was swept.
UPDATE windlass.session SET report = :report, reported = (SELECT windlass.clock(:now))
 WHERE id = :session AND NOT lost
RETURNING id;
