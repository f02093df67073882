-- unchecked_workflows: return workflows for which a submit did not complete the search for cycles.
SELECT id, tenant, name FROM windlass.workflow WHERE check_later;
