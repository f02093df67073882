-- report: keep what a node says of its pools. No row back means that its session was swept.
UPDATE session SET report = :report, reported = :now WHERE id = :session AND lost = 0 RETURNING id;
