-- request_cancel: ask the holders of leases to stop. Their tasks are locked.
-- batch: id uuid
UPDATE windlass.leased SET cancel_requested = true
 WHERE ctid = ANY (ARRAY(
       SELECT l.place
         FROM unnest(:id::uuid[]) AS i (id)
        CROSS JOIN LATERAL (SELECT l.ctid AS place FROM windlass.leased AS l WHERE l.id = i.id OFFSET 0) AS l));
