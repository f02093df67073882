-- record_series: append points to the time series.
-- batch: queue text, width bigint, at bigint, arrived bigint, started bigint, completed bigint, failed bigint,
--   retried bigint, waited bigint, longest bigint
INSERT INTO windlass.series (queue, width, at, arrived, started, completed, failed, retried, waited, longest)
SELECT * FROM unnest(:queue::text[], :width::bigint[], :at::bigint[], :arrived::bigint[], :started::bigint[],
                     :completed::bigint[], :failed::bigint[], :retried::bigint[], :waited::bigint[], :longest::bigint[]);
