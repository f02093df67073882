-- note_ended: add ended tasks to `ended` without looking for dependents.
-- For an end in a caller's transaction, whose snapshot may not see edges that were added meanwhile. If there are no
-- dependents, the next sweep removes the row.
-- batch: parent uuid, how text
INSERT INTO windlass.ended (parent, how)
SELECT * FROM unnest(:parent::uuid[], :how::text[])
    ON CONFLICT (parent) DO UPDATE SET how = excluded.how, after = excluded.after;
