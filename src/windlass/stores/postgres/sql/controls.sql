-- controls: the controls of some kinds. Those that were removed are not there.
SELECT kind, name, version, value, changed
  FROM windlass.control
 WHERE kind = ANY (:kinds::text[]) AND value IS NOT NULL
 ORDER BY kind, name;
