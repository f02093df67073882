-- unfolded: count the deltas, up to a limit, to decide whether to fold them.
SELECT count(*) FROM (SELECT FROM windlass.tally LIMIT :limit) AS head;
