-- Creates a database and a role for Windlass that is not a superuser. Run it as a superuser, once:
--   psql -v ON_ERROR_STOP=1 -v password='a long random password' -f role.sql
-- The URL is then postgresql://@{role}:PASSWORD@@HOST/@{database}. The role owns its database, because nodes create and drop
-- partitions and migrate the schema. It can do nothing outside of it.
CREATE ROLE @{role} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD :'password';
CREATE DATABASE @{database} OWNER @{role};
-- Nobody else may connect.
REVOKE ALL ON DATABASE @{database} FROM PUBLIC;
-- Lets nodes and `windlass doctor` see how long transactions of others have been open.
GRANT pg_read_all_stats TO @{role};
