-- advance_ended: how far the telling has come, for an end with very many dependents.
-- batch: parent blob, after blob
UPDATE ended SET after = :after WHERE parent = :parent;
