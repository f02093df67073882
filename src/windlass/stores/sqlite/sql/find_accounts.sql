-- find_accounts: return the account of a tenant.
-- batch: queue text, tenant text
SELECT queue, tenant, charged, highest, mean, minute, hour, at, active FROM account WHERE queue = :queue AND tenant = :tenant;
