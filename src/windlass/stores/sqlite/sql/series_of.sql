-- series_of: the points of a queue from a time on, by the start of a second or minute.
SELECT at / :width * :width, sum(arrived), sum(started), sum(completed), sum(failed),
       sum(retried), sum(waited), max(longest)
  FROM series
 WHERE queue = :queue AND at >= :since AND width IN (SELECT value FROM json_each(:widths))
 GROUP BY 1;
