-- note_ended: note these ends without a look at who waits for them.
-- For an end inside a caller's transaction: with a snapshot of its own, edges that were added meanwhile cannot be seen.
-- Should nobody wait, the next sweep takes the row away.
-- batch: parent uuid, how text
INSERT INTO windlass.ended (parent, how)
SELECT * FROM unnest(:parent::uuid[], :how::text[])
    ON CONFLICT (parent) DO UPDATE SET how = excluded.how, after = excluded.after;
