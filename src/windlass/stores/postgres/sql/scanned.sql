-- scanned: return the last of the next tasks, newest first, and the one after it, if there is one.
SELECT submitted, id
  FROM windlass.task
 WHERE (submitted, id) < (:submitted::bigint, :id::uuid)
   AND submitted >= :since::bigint
 ORDER BY submitted DESC, id DESC
 LIMIT 2 OFFSET :skip;
