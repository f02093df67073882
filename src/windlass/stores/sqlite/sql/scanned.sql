-- scanned: where a look at so many tasks ends, newest first, and the task behind it, if there is one.
SELECT submitted, id
  FROM body
 WHERE (submitted, id) < (:submitted, :id)
   AND submitted >= :since
 ORDER BY submitted DESC, id DESC
 LIMIT 2 OFFSET :skip;
