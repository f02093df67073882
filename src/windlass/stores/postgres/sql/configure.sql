-- configure: set the settings of a queue.
INSERT INTO windlass.queue (name, strategy, horizon, step, paused, paused_by, paused_why, paused_until, max_waiting,
                            weight, fair)
VALUES (:name, :strategy, :horizon, :step, :paused, :paused_by, :paused_why, :paused_until, :max_waiting, :weight,
        :fair)
    ON CONFLICT (name) DO UPDATE
   SET strategy = excluded.strategy, horizon = excluded.horizon, step = excluded.step, paused = excluded.paused,
       paused_by = excluded.paused_by, paused_why = excluded.paused_why, paused_until = excluded.paused_until,
       max_waiting = excluded.max_waiting, weight = excluded.weight, fair = excluded.fair;
