-- open_bulk: start an operation on more tasks than one transaction handles.
INSERT INTO bulk (id, action, reason, grace, expires) VALUES (:bulk, :action, :reason, :grace, :now + :patience);
