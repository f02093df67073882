-- unfolded: whether the counts have grown long enough to be folded.
SELECT count(*) FROM (SELECT 1 FROM tally LIMIT :limit) AS head;
