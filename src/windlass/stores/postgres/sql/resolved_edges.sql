-- resolved_edges: what these tasks have waited for.
-- batch: child uuid
SELECT child, parent FROM windlass.edge WHERE child = ANY (:child::uuid[]) AND resolved;
