-- drop_bulk: an operation is over.
DELETE FROM bulk WHERE id = :bulk;
