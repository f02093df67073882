-- controls: the controls of some kinds. Those that were removed are not there.
SELECT kind, name, version, value, changed
  FROM control
 WHERE kind IN (SELECT value FROM json_each(:kinds)) AND value IS NOT NULL
 ORDER BY kind, name;
