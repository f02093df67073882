-- claim_chosen: return a task that a claim has chosen (stores/sql/governed_claim.py), with the fence of its lease.
-- `+` keeps SQLite from preparing the statement again for each value, because of partial indexes of `task`.
-- moves: runnable -> leased
-- batch: queue text, lot integer, band integer, rank integer, tie integer, id blob, limit_key text, charge integer
SELECT t.id, max(t.fence, (SELECT epoch << 40 FROM meta) + t.submitted / 10000) + 1, t.handler, t.args, t.rules, t.queue,
       t.tenant, t.due, :now, t.attempts, t.crashes, t.losses, t.expires, t.deadline, t.workflow, t.key,
       r.lot, r.band, r.rank, r.tie, :limit_key, :charge
  FROM runnable AS r CROSS JOIN task AS t ON t.id = r.id
 WHERE r.queue = +:queue AND r.lot = +:lot AND r.band = +:band AND r.rank = +:rank AND r.tie = +:tie AND r.id = +:id;
