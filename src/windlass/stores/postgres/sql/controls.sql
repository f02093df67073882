-- controls: return the controls of some kinds, without removed ones.
SELECT kind, name, version, value, changed
  FROM windlass.control
 WHERE kind = ANY (:kinds::text[]) AND value IS NOT NULL
 ORDER BY kind, name;
