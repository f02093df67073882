-- forget_entries: remove entries of the audit log.
-- batch: number bigint
DELETE FROM windlass.audit WHERE number = ANY (:number::bigint[]);
