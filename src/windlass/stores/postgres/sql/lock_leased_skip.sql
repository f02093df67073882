-- lock_leased_skip: lock and return the leases of those of these tasks that are leased, without those that
-- others have locked.
-- batch: id uuid
SELECT l.id, l.fence, l.session, l.claimed
  FROM (SELECT id FROM unnest(:id::uuid[]) AS i (id) ORDER BY id) AS i
 CROSS JOIN LATERAL (
       SELECT l.id, l.fence, l.session, l.claimed FROM windlass.leased AS l WHERE l.id = i.id FOR UPDATE SKIP LOCKED) AS l;
