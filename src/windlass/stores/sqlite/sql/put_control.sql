-- put_control: write a control if its version is still the expected one. No row back means that it is not.
-- One that was removed counts as version 0, and keeps its row, so that no version is ever given twice.
INSERT INTO control AS c (kind, name, version, value, changed, mark)
SELECT :kind, :name, 1, :value, :now, :mark
 WHERE :expect = 0 OR EXISTS (SELECT 1 FROM control WHERE kind = :kind AND name = :name)
    ON CONFLICT (kind, name) DO UPDATE
   SET version = c.version + 1, value = excluded.value, changed = excluded.changed, mark = excluded.mark
 WHERE CASE WHEN c.value IS NULL THEN 0 ELSE c.version END = :expect
RETURNING version;
