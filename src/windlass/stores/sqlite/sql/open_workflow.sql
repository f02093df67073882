-- open_workflow: prepare a workflow; one that is known stays as it is, and gives no row back.
INSERT INTO workflow (id, tenant, name, sealed, forward)
VALUES (:id, :tenant, :name, :sealed, :forward)
    ON CONFLICT (id) DO NOTHING
RETURNING id;
