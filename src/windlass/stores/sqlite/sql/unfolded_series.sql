-- unfolded_series: what happened from a time on and is not folded into the time series yet, by state and second.
SELECT at / 1000000 * 1000000, state, sum(coalesce(arrived, 0)), sum(CASE WHEN tasks > 0 THEN tasks ELSE 0 END),
       sum(coalesce(waited, 0)), max(coalesce(longest, 0))
  FROM count_delta
 WHERE at >= :since AND (:queue IS NULL OR queue = :queue)
 GROUP BY 1, 2;
