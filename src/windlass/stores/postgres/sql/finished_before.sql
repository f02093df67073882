-- finished_before: return a page of tasks whose retention is over, without dead letters.
SELECT t.id, t.finished, t.tenant, b.workflow
  FROM windlass.task AS t JOIN windlass.body AS b USING (id)
 WHERE t.finished < :limit_time AND (t.finished, t.id) > (:finished, :id::uuid) AND t.state <> 'failed'
 ORDER BY t.finished, t.id
 LIMIT :limit;
