-- open_bulk: begin an operation over more tasks than one transaction takes.
INSERT INTO bulk (id, deed, reason, grace, expires) VALUES (:bulk, :deed, :reason, :grace, :now + :patience);
