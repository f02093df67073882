-- drop_parked: forget a lane that is empty.
-- batch: queue text, tenant text, name text
DELETE FROM parked WHERE queue = :queue AND tenant = :tenant AND name = :name;
