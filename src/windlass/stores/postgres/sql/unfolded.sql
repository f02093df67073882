-- unfolded: count the deltas, up to a limit, to decide whether to fold them.
SELECT count(*) FROM (SELECT FROM windlass.count_delta LIMIT :limit) AS head;
