-- unfolded: whether the counts have grown long enough to be folded.
SELECT count(*) FROM (SELECT FROM windlass.tally LIMIT :limit) AS head;
