-- record_series: append a point to the time series.
-- batch: queue text, width integer, at integer, arrived integer, started integer, completed integer, failed integer,
--   retried integer, waited integer, longest integer
INSERT INTO series (queue, width, at, arrived, started, completed, failed, retried, waited, longest)
VALUES (:queue, :width, :at, :arrived, :started, :completed, :failed, :retried, :waited, :longest);
