-- finished_before: tasks whose time to be kept is over, dead letters aside, a page at a time.
SELECT t.id, t.finished, t.tenant, b.workflow
  FROM task AS t JOIN body AS b USING (id)
 WHERE t.finished < :limit_time AND (t.finished, t.id) > (:finished, :id) AND t.state <> 'failed'
 ORDER BY t.finished, t.id
 LIMIT :limit;
