-- add_to_bulk: add tasks to an operation: those that ended badly for a retry, unfinished ones for a cancel.
-- batch: task blob
INSERT OR IGNORE INTO bulk_task (bulk, task, chosen, stage)
SELECT :bulk, t.id, 1, :stage
  FROM current_task AS t
 WHERE t.id = :task
   AND CASE WHEN :unfinished THEN t.finished IS NULL AND t.cancel_requested = 0
            ELSE t.finished IS NOT NULL AND t.state <> 'completed' END;
