-- complete: remove the lease of a completed attempt, which only a cancel request could change. For
-- limits it returns the scope as JSON.
-- It does not touch `task`, because most attempts end like this. An attempt that it does not return needs `settle`.
-- moves: leased -> completed
-- batch: id blob, fence integer
DELETE FROM leased
 WHERE id = +:id AND fence = +:fence AND session = +:session AND cancel_requested = 0
RETURNING id, fence, claimed, queue, tenant,
          charge, CASE WHEN limited THEN json_array(queue, tenant, handler, limit_key) END;
