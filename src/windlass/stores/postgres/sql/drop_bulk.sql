-- drop_bulk: remove an operation.
DELETE FROM windlass.bulk WHERE id = :bulk;
