-- drop_parked: forget lanes that are empty.
-- batch: queue text, tenant text, name text
DELETE FROM windlass.parked
 WHERE ctid = ANY (ARRAY(
       SELECT p.place
         FROM unnest(:queue::text[], :tenant::text[], :name::text[]) AS i (queue, tenant, name)
        CROSS JOIN LATERAL (
              SELECT p.ctid AS place FROM windlass.parked AS p
               WHERE p.queue = i.queue AND p.tenant = i.tenant AND p.name = i.name FOR UPDATE) AS p));
