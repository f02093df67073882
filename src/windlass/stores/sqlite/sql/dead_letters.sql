-- dead_letters: of the failed tasks from one on down to another, newest first, those of an error group.
SELECT finished, id
  FROM task
 WHERE state = 'failed'
   AND (finished, id) < (:finished, :id)
   AND (finished, id) >= (:end, :end_id)
   AND error_group = :error_group
   AND (:queue IS NULL OR queue = :queue)
   AND (:tenant IS NULL OR tenant = :tenant)
 ORDER BY finished DESC, id DESC
 LIMIT :limit;
