-- lease_chosen: write a lease of a claim in a fair queue or under limits.
-- moves: runnable -> leased
-- batch: id blob, fence integer, queue text, tenant text, handler text, limit_key text, charge integer
INSERT INTO leased (id, fence, session, claimed, queue, tenant, handler, limit_key, charge, limited)
VALUES (:id, :fence, :session, :now, :queue, :tenant, :handler, :limit_key, :charge, :limited);
