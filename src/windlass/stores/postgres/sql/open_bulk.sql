-- open_bulk: start an operation on more tasks than one transaction handles.
INSERT INTO windlass.bulk (id, action, reason, grace, expires)
VALUES (:bulk, :action, :reason, :grace, windlass.clock(:now) + :patience::bigint);
