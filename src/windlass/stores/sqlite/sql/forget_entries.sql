-- forget_entries: remove entries of the audit log.
-- batch: number integer
DELETE FROM audit WHERE number = :number;
