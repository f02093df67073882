-- hold_queue: read a queue's settings as they stand, to change them; a queue that has none is given these first.
INSERT INTO queue (name, strategy, horizon, step, paused, paused_by, paused_why, max_waiting, max_leased,
                   weight, fair)
VALUES (:name, :strategy, :horizon, :step, :paused, :paused_by, :paused_why, :max_waiting, :max_leased, :weight, :fair)
    ON CONFLICT (name) DO UPDATE SET name = excluded.name
RETURNING name, strategy, horizon, step, paused, paused_by, paused_why, max_waiting, max_leased, weight, fair;
