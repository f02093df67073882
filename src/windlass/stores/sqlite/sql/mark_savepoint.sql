-- mark_savepoint: begin a part of the transaction that can be undone, with its locks.
SAVEPOINT windlass;
