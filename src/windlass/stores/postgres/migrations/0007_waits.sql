-- Steps that wait for an event or a time. Safe to run twice.

-- What the task waits for instead of running a handler, as JSON text (`core.task.Wait`).
ALTER TABLE windlass.task ADD COLUMN IF NOT EXISTS wait text;

CREATE OR REPLACE VIEW windlass.current_task AS
SELECT t.id, t.queue, t.tenant,
       CASE WHEN t.state <> 'queued' THEN t.state WHEN l.id IS NOT NULL THEN 'leased' COLLATE "C"
            WHEN c.id IS NOT NULL THEN 'completed' COLLATE "C" ELSE 'runnable' COLLATE "C" END AS state,
       t.band, t.rank, t.tie, t.due, t.expires, t.waiting, t.on_failure,
       coalesce(l.fence, c.fence, t.fence) AS fence, coalesce(l.session, c.session, t.session) AS session,
       coalesce(l.claimed, c.claimed, t.claimed) AS claimed, coalesce(c.finished, t.finished) AS finished,
       CASE WHEN c.id IS NULL THEN t.attempts ELSE t.attempts + 1 END AS attempts, t.crashes, t.losses, t.generation,
       t.cancel_requested, t.cancel_by, CASE WHEN c.id IS NULL THEN t.reason END AS reason, t.error_group,
       t.handler, t.args, t.rules, t.workflow, t.workflow_tenant, t.key, t.fingerprint, t.priority, t.deadline,
       t.first_due, t.submitted, t.wait
  FROM windlass.task AS t
  LEFT JOIN windlass.leased AS l ON l.id = t.id
  LEFT JOIN windlass.completed AS c ON c.id = t.id;
