-- unfolded_series: what happened from a time on and is not folded into the time series yet, by state and second.
SELECT at / 1000000 * 1000000, state, sum(coalesce(arrived, 0))::bigint,
       sum(CASE WHEN tasks > 0 THEN tasks ELSE 0 END)::bigint, sum(coalesce(waited, 0))::bigint, max(coalesce(longest, 0))
  FROM windlass.count_delta
 WHERE at >= :since::bigint AND (:queue::text IS NULL OR queue = :queue::text)
 GROUP BY 1, 2;
