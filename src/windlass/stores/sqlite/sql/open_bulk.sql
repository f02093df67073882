-- open_bulk: begin an operation over more tasks than one transaction takes.
INSERT INTO bulk (id, action, reason, grace, expires) VALUES (:bulk, :action, :reason, :grace, :now + :patience);
