-- report: store a node's report about its pools. Returns no row if its session is lost.
UPDATE session SET report = :report, reported = :now WHERE id = :session AND lost = 0 RETURNING id;
