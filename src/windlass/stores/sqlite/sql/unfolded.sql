-- unfolded: count the deltas, up to a limit, to decide whether to fold them.
SELECT count(*) FROM (SELECT 1 FROM count_delta LIMIT :limit) AS head;
