-- take_freed: remove and return the scopes in which leases have ended.
DELETE FROM windlass.freed
RETURNING queue, tenant, handler, limit_key;
