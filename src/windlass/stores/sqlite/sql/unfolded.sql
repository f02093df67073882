-- unfolded: count the deltas, up to a limit, to decide whether to fold them.
SELECT count(*) FROM (SELECT 1 FROM tally LIMIT :limit) AS head;
