-- note_ended: note this end without a look at who waits for it.
-- batch: parent blob, how text
INSERT INTO ended (parent, how)
VALUES (:parent, :how)
    ON CONFLICT (parent) DO UPDATE SET how = excluded.how, after = excluded.after;
