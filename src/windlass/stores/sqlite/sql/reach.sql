-- reach: return the dependents of an ended task, up to a limit, with their rows.
-- batch: parent blob
SELECT e.parent, e.child, t.id, t.queue, t.tenant, t.state, t.band, t.rank, t.tie, t.due, t.expires, t.waiting,
       t.on_failure, t.fence, t.session, t.claimed, t.finished, t.attempts, t.crashes, t.losses, t.generation,
       t.cancel_requested, t.cancel_by, t.reason, t.wait
  FROM (SELECT parent, child FROM edge WHERE parent = :parent AND resolved = 0 ORDER BY child LIMIT :limit) AS e
  JOIN task AS t ON t.id = e.child;
