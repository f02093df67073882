-- hold_queue: return the settings of a queue to change them; insert these if it has none.
INSERT INTO queue (name, strategy, horizon, step, paused, paused_by, paused_why, paused_until, max_waiting,
                   weight, fair)
VALUES (:name, :strategy, :horizon, :step, :paused, :paused_by, :paused_why, :paused_until, :max_waiting, :weight,
        :fair)
    ON CONFLICT (name) DO UPDATE SET name = excluded.name
RETURNING name, strategy, horizon, step, paused, paused_by, paused_why, paused_until, max_waiting, weight, fair;
