-- open_workflow: open a workflow. A known one stays as it is, and no row is returned.
INSERT INTO workflow (id, tenant, name, sealed, forward)
VALUES (:id, :tenant, :name, :sealed, :forward)
    ON CONFLICT (id) DO NOTHING
RETURNING id;
