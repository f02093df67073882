-- record_attempts: insert failed attempts. A completed one needs no row: its task has everything.
-- batch: task uuid, fence bigint, session uuid, started bigint, ended bigint, state text, error text
INSERT INTO windlass.attempt (task, fence, session, started, ended, state, error)
SELECT * FROM unnest(:task::uuid[], :fence::bigint[], :session::uuid[], :started::bigint[], :ended::bigint[],
                     :state::text[], :error::text[]);
