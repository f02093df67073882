-- count_leases: if there are limits, count all leases for them from now on. A lease that is just ending is left out.
UPDATE windlass.leased SET limited = true
 WHERE ctid = ANY (ARRAY(
       SELECT ctid FROM windlass.leased
        WHERE NOT limited AND EXISTS (SELECT FROM windlass.control WHERE kind = 'limit' AND value IS NOT NULL)
          FOR UPDATE SKIP LOCKED));
