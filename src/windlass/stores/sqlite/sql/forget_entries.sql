-- forget_entries: remove an entry of the audit log.
-- batch: number integer
DELETE FROM audit WHERE number = :number;
