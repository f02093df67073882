-- release_savepoint: end the part of the transaction that `mark_savepoint` began.
RELEASE SAVEPOINT windlass;
