-- continue_as: change a task whose attempt has ended to the call as which it continues. `settle` has written its state.
-- batch: id blob, queue text, handler text, args text, rules text, kind integer, band integer, rank integer, tie integer,
--   on_failure text, waiting integer, due integer
UPDATE task
   SET queue = :queue, handler = :handler, args = :args, rules = :rules, kind = :kind, band = :band, rank = :rank,
       tie = :tie, on_failure = :on_failure, waiting = :waiting, due = :due, attempts = 0, crashes = 0, losses = 0
 WHERE id = :id;
