-- decide_bulk: the tasks of an operation are all known; from here on it happens, whoever carries it out.
UPDATE bulk SET decided = 1 WHERE id = :bulk;
