-- lease: write a lease of a claim.
-- moves: runnable -> leased
-- batch: id blob, fence integer, queue text, tenant text, handler text
INSERT INTO leased (id, fence, session, claimed, queue, tenant, handler, limited)
VALUES (:id, :fence, :session, :now, :queue, :tenant, :handler, :limited);
