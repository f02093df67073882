-- amend_body: what an update changes of what the caller wrote.
UPDATE body SET priority = :priority, deadline = :deadline, first_due = :first_due WHERE id = :task;
