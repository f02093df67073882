-- control_mark: the version of a control, and the mark of who wrote it.
SELECT version, mark FROM control WHERE kind = :kind AND name = :name;
