-- open_bulk: begin an operation over more tasks than one transaction takes.
INSERT INTO windlass.bulk (id, deed, reason, grace, expires)
VALUES (:bulk, :deed, :reason, :grace, windlass.clock(:now) + :patience::bigint);
