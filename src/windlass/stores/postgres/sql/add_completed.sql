-- add_completed: write completed attempts whose leases were removed, and waits that are over.
-- moves: leased | scheduled -> completed
-- batch: id uuid, fence bigint, session uuid, claimed bigint, finished bigint
INSERT INTO windlass.completed (id, fence, session, claimed, finished)
SELECT * FROM unnest(:id::uuid[], :fence::bigint[], :session::uuid[], :claimed::bigint[], :finished::bigint[]);
