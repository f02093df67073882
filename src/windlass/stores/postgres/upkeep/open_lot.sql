-- open_lot: open the next partition of a queue. The open one gets a row if it had none.
INSERT INTO windlass.lot (queue, number)
SELECT :queue, (SELECT coalesce(max(number), 0) FROM windlass.lot WHERE queue = :queue) + step
  FROM (VALUES (0), (1)) AS steps (step)
    ON CONFLICT (queue, number) DO NOTHING;
