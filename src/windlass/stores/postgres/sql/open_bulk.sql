-- open_bulk: begin an operation over more tasks than one transaction takes.
INSERT INTO windlass.bulk (id, action, reason, grace, expires)
VALUES (:bulk, :action, :reason, :grace, windlass.clock(:now) + :patience::bigint);
