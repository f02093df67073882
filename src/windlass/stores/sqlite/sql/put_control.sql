-- put_control: write a control if it still has the expected version. Returns no row if not.
-- A removed control has version 0 and keeps its row, so that no version is used twice.
INSERT INTO control AS c (kind, name, version, value, changed, mark)
SELECT :kind, :name, 1, :value, :now, :mark
 WHERE :expect = 0 OR EXISTS (SELECT 1 FROM control WHERE kind = :kind AND name = :name)
    ON CONFLICT (kind, name) DO UPDATE
   SET version = c.version + 1, value = excluded.value, changed = excluded.changed, mark = excluded.mark
 WHERE CASE WHEN c.value IS NULL THEN 0 ELSE c.version END = :expect
RETURNING version;
