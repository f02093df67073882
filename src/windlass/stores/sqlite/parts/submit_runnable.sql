-- submit_runnable: make the plain tasks of a submit runnable. One statement for all of them is faster than one for each.
-- moves: new -> runnable
INSERT INTO runnable (queue, lot, band, rank, tie, id, kind, due)
SELECT t.queue, t.lot, t.band, t.rank, t.tie, t.id, t.kind, t.due
  FROM json_each(:ids) AS i CROSS JOIN task AS t ON t.id = unhex(i.value);
