-- dead_letters: of the failed tasks from one on down to another, newest first, those of an error group.
SELECT finished, id
  FROM windlass.task
 WHERE state = 'failed'
   AND (finished, id) < (:finished::bigint, :id::uuid)
   AND (finished, id) >= (:end::bigint, :end_id::uuid)
   AND error_group = :error_group::text
   AND (:queue::text IS NULL OR queue = :queue::text)
   AND (:tenant::text IS NULL OR tenant = :tenant::text)
 ORDER BY finished DESC, id DESC
 LIMIT :limit;
