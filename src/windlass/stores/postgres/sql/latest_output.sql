-- latest_output: return the output of the newest attempt of each task, and whether it still runs.
-- OFFSET 0 forces lookups by id, as in `ancestors`.
-- batch: id uuid
SELECT i.id, newest.fence, newest.text, held.fence IS NOT NULL AS running
  FROM unnest(:id::uuid[]) AS i (id)
 CROSS JOIN LATERAL (SELECT fence, text FROM windlass.log WHERE task = i.id ORDER BY fence DESC LIMIT 1) AS newest
  LEFT JOIN LATERAL (
       SELECT fence FROM windlass.leased WHERE leased.id = i.id AND leased.fence = newest.fence OFFSET 0) AS held ON true;
