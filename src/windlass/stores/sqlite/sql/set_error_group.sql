-- set_error_group: note the group of a failed task that ended without an attempt.
-- batch: id blob, error_group text
UPDATE task SET error_group = :error_group WHERE id = :id;
