-- decide_bulk: the tasks of an operation are all known; from here on it happens, whoever carries it out.
UPDATE windlass.bulk SET decided = true WHERE id = :bulk;
