-- scanned: return the last of the next tasks, newest first, and the one after it, if there is one.
SELECT submitted, id
  FROM task
 WHERE (submitted, id) < (:submitted, :id)
   AND submitted >= :since
 ORDER BY submitted DESC, id DESC
 LIMIT 2 OFFSET :skip;
