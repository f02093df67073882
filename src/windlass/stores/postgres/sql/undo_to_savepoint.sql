-- undo_to_savepoint: undo everything since `mark_savepoint`, and release its locks.
ROLLBACK TO SAVEPOINT windlass;
