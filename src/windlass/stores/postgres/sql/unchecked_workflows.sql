-- unchecked_workflows: those whose cycle search ran out of its budget.
SELECT id, tenant, name FROM windlass.workflow WHERE check_later;
