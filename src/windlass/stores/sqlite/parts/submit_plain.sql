-- submit_plain: insert a plain task, which is runnable at once.
-- moves: new -> runnable
-- batch: id blob, args text, due integer, queue text, tenant text, band integer, rank integer, on_failure text,
--   handler text, rules text, priority integer, kind integer
INSERT INTO task (id, queue, tenant, state, band, rank, tie, due, waiting, on_failure, kind, handler, args, rules, priority,
                  first_due, submitted)
VALUES (:id, :queue, :tenant, 'queued', :band, :rank, :due, :due, 0, :on_failure, :kind, :handler, :args, :rules, :priority,
        :due, :now);
