-- drop_bulk: remove an operation.
DELETE FROM bulk WHERE id = :bulk;
