-- put_parked: say from when on claims look at a lane.
-- batch: queue text, tenant text, name text, lot integer, ready integer
INSERT INTO parked (queue, tenant, name, lot, ready) VALUES (:queue, :tenant, :name, :lot, :ready)
    ON CONFLICT (queue, tenant, name) DO UPDATE SET ready = excluded.ready;
