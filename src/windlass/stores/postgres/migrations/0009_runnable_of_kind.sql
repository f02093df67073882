-- compatible_from: 7
-- The same as runnable_kind, with a condition that does not imply that of runnable_oldest. While a table has never been
-- analyzed, the planner takes the smaller of two indexes, and a claim that skips kinds read all tasks of its queue.
CREATE INDEX CONCURRENTLY IF NOT EXISTS runnable_of_kind
    ON windlass.runnable (queue, lot, kind, band, rank, tie, id) WHERE lot > -1;
