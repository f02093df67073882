-- drop_bulk: an operation is over.
DELETE FROM windlass.bulk WHERE id = :bulk;
