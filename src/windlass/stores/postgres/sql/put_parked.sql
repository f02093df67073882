-- put_parked: say from when on claims look at a lane.
-- batch: queue text, tenant text, name text, lot bigint, ready bigint
INSERT INTO windlass.parked (queue, tenant, name, lot, ready)
SELECT queue, tenant, name, lot, ready
  FROM unnest(:queue::text[], :tenant::text[], :name::text[], :lot::bigint[], :ready::bigint[])
       AS i (queue, tenant, name, lot, ready)
    ON CONFLICT (queue, tenant, name) DO UPDATE SET ready = excluded.ready;
