-- controls: return the controls of some kinds, without removed ones.
SELECT kind, name, version, value, changed
  FROM control
 WHERE kind IN (SELECT value FROM json_each(:kinds)) AND value IS NOT NULL
 ORDER BY kind, name;
