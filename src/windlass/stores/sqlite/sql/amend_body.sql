-- amend_body: write the fields of a body that an update changes.
UPDATE body SET priority = :priority, deadline = :deadline, first_due = :first_due WHERE id = :task;
