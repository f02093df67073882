-- share_leased: lock and return the leases of those of these tasks that are leased, in id order.
-- A separate statement after `share_runnable`: with its own snapshot it sees what was claimed meanwhile.
-- batch: id uuid
SELECT l.id, l.fence, l.session, l.claimed
  FROM (SELECT id FROM unnest(:id::uuid[]) AS i (id) ORDER BY id) AS i
 CROSS JOIN LATERAL (
       SELECT l.id, l.fence, l.session, l.claimed FROM windlass.leased AS l WHERE l.id = i.id FOR SHARE) AS l;
