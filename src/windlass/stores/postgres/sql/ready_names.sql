-- ready_names: let claims look again at what these limits held back.
-- batch: name text
UPDATE windlass.parked SET ready = 0
 WHERE ctid = ANY (ARRAY(
       SELECT p.place
         FROM unnest(:name::text[]) AS i (name)
        CROSS JOIN LATERAL (
              SELECT p.ctid AS place FROM windlass.parked AS p
               WHERE p.name = i.name AND p.lot < 0 AND p.ready IS DISTINCT FROM 0 FOR UPDATE) AS p));
