-- open_prerequisites: what these tasks still wait for.
-- batch: child uuid
SELECT DISTINCT parent FROM windlass.edge WHERE child = ANY (:child::uuid[]) AND NOT resolved;
