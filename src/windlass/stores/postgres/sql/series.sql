-- series: the points of all queues from a time on, by the start of a second or minute.
SELECT at / :width::bigint * :width::bigint, sum(arrived)::bigint, sum(started)::bigint, sum(completed)::bigint,
       sum(failed)::bigint, sum(retried)::bigint, sum(waited)::bigint, max(longest)
  FROM windlass.series
 WHERE at >= :since::bigint AND width = ANY (:widths::bigint[])
 GROUP BY 1;
