-- control_mark: return the version of a control, and the mark of its last writer.
SELECT version, mark FROM windlass.control WHERE kind = :kind AND name = :name;
