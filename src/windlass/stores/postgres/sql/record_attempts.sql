-- record_attempts: keep what went wrong. The good end needs no record of its own: the task's row has it.
-- batch: task uuid, fence bigint, session uuid, started bigint, ended bigint, state text, error text
INSERT INTO windlass.attempt (task, fence, session, started, ended, state, error)
SELECT * FROM unnest(:task::uuid[], :fence::bigint[], :session::uuid[], :started::bigint[], :ended::bigint[],
                     :state::text[], :error::text[]);
