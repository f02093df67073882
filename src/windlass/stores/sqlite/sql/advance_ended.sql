-- advance_ended: record how far the edges of a task with very many dependents are resolved.
-- batch: parent blob, after blob
UPDATE ended SET after = :after WHERE parent = :parent;
