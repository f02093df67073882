-- open_workflow: prepare a workflow; one that is known stays as it is.
INSERT INTO windlass.workflow (id, tenant, name, sealed, forward)
VALUES (:id, :tenant, :name, :sealed, :forward)
    ON CONFLICT (id) DO NOTHING;
