-- add_to_bulk: add tasks to an operation: those that ended badly for a retry, unfinished ones for a cancel.
-- batch: task uuid
INSERT INTO windlass.bulk_task (bulk, task, chosen, stage)
SELECT :bulk, t.id, true, :stage
  FROM windlass.current_task AS t
 WHERE t.id = ANY (:task::uuid[])
   AND CASE WHEN :unfinished::boolean THEN t.finished IS NULL AND NOT t.cancel_requested
            ELSE t.finished IS NOT NULL AND t.state <> 'completed' END
    ON CONFLICT DO NOTHING;
