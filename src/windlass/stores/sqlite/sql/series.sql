-- series: the points of all queues from a time on, by the start of a second or minute.
SELECT at / :width * :width, sum(arrived), sum(started), sum(completed), sum(failed),
       sum(retried), sum(waited), max(longest)
  FROM series
 WHERE at >= :since AND width IN (SELECT value FROM json_each(:widths))
 GROUP BY 1;
