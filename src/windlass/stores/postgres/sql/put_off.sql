-- put_off: write what changes of a queued task when an equal one is submitted with `debounce`.
UPDATE windlass.task SET first_due = :first_due, args = :args WHERE id = :task;
