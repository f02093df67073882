-- late_cancels: return leased tasks that were asked to stop and did not.
-- moves: leased -> cancelled
SELECT id FROM task WHERE cancel_by <= :now ORDER BY cancel_by LIMIT :limit;
