-- submit: insert a task.
-- moves: new -> waiting | scheduled | runnable | cancelled | expired
-- batch: id blob, queue text, tenant text, state text, band integer, rank integer, tie integer, due integer,
--   expires integer, waiting integer, on_failure text, finished integer, reason text, kind integer
INSERT INTO task (id, queue, tenant, state, band, rank, tie, due, expires, waiting, on_failure, finished, reason, kind)
VALUES (:id, :queue, :tenant, :state, :band, :rank, :tie, :due, :expires, :waiting, :on_failure, :finished, :reason,
        :kind);
