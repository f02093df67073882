-- note_ended: add an ended task to `ended` without looking for dependents.
-- batch: parent blob, how text
INSERT INTO ended (parent, how)
VALUES (:parent, :how)
    ON CONFLICT (parent) DO UPDATE SET how = excluded.how, after = excluded.after;
