-- decide_bulk: mark an operation as decided: its tasks are complete, and it will be carried out.
UPDATE bulk SET decided = 1 WHERE id = :bulk;
