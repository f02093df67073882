-- with_dependents: return those of these tasks that have unresolved edges. One statement for all of them is much faster
-- than one for each, and most tasks have none.
SELECT unhex(i.value)
  FROM json_each(:parents) AS i
 WHERE EXISTS (SELECT 1 FROM edge WHERE parent = unhex(i.value) AND resolved = 0);
