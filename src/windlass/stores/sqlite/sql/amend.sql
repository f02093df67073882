-- amend: write the fields of a task that only an update changes.
UPDATE task SET priority = :priority, deadline = :deadline, first_due = :first_due WHERE id = :task;
