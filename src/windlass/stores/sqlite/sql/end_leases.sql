-- end_leases: remove a lease, and return it.
-- batch: id blob
DELETE FROM leased WHERE id = :id
RETURNING id, queue, tenant, claimed, charge, handler, limit_key, limited;
