-- configure: set the settings of a queue.
INSERT INTO queue (name, strategy, horizon, step, paused, paused_by, paused_why, max_waiting, max_leased,
                            weight, fair)
VALUES (:name, :strategy, :horizon, :step, :paused, :paused_by, :paused_why, :max_waiting, :max_leased, :weight, :fair)
    ON CONFLICT (name) DO UPDATE
   SET strategy = excluded.strategy, horizon = excluded.horizon, step = excluded.step, paused = excluded.paused,
       paused_by = excluded.paused_by, paused_why = excluded.paused_why, max_waiting = excluded.max_waiting,
       max_leased = excluded.max_leased, weight = excluded.weight, fair = excluded.fair;
