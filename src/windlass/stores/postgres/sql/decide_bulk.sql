-- decide_bulk: mark an operation as decided: its tasks are complete, and it will be carried out.
UPDATE windlass.bulk SET decided = true WHERE id = :bulk;
