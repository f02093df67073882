-- open_prerequisites: return what these tasks still wait for.
-- batch: child blob
SELECT DISTINCT parent FROM edge WHERE child = :child AND resolved = 0;
