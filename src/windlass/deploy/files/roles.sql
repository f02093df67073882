-- Creates roles with fewer rights than the owner of the database, one for each kind of program:
--   @{prefix}_node   nodes: run tasks. It cannot read tokens, change limits or the schema.
--   @{prefix}_api    the HTTP server, commands and programs that submit tasks. It cannot change the schema.
--   @{prefix}_read   `windlass server --read-only`, `windlass top --read-only`, reports. It changes nothing.
-- Only `windlass db migrate` still needs the owner, @{owner}. Run this as a superuser, after `windlass db migrate`:
--   WINDLASS_NODE_PASSWORD=… WINDLASS_API_PASSWORD=… WINDLASS_READ_PASSWORD=… psql -f windlass-roles.sql
-- That needs psql 15 or newer; the server may be PostgreSQL 14.
-- Running it again is safe, also while programs run. Do so after an upgrade of Windlass, with the script that the new
-- version prints and without passwords. New tables work without that; new statements on existing tables may not.
\set ON_ERROR_STOP on
-- From the environment, because other users of the machine can read command lines.
\getenv node_password WINDLASS_NODE_PASSWORD
\getenv api_password WINDLASS_API_PASSWORD
\getenv read_password WINDLASS_READ_PASSWORD
\connect @{database}
BEGIN;

SELECT format('CREATE ROLE %I', name)
  FROM unnest(ARRAY['@{prefix}_node', '@{prefix}_api', '@{prefix}_read']) AS name
 WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = name)
\gexec
ALTER ROLE @{prefix}_node LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
ALTER ROLE @{prefix}_api LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
ALTER ROLE @{prefix}_read LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
\if :{?node_password}
ALTER ROLE @{prefix}_node PASSWORD :'node_password';
\endif
\if :{?api_password}
ALTER ROLE @{prefix}_api PASSWORD :'api_password';
\endif
\if :{?read_password}
ALTER ROLE @{prefix}_read PASSWORD :'read_password';
\endif

-- A report that runs or waits for too long would keep the server from cleaning up after all tasks.
ALTER ROLE @{prefix}_read SET statement_timeout = '5min';
ALTER ROLE @{prefix}_read SET idle_in_transaction_session_timeout = '1min';

GRANT CONNECT ON DATABASE @{database} TO @{prefix}_node, @{prefix}_api, @{prefix}_read;
GRANT USAGE ON SCHEMA windlass TO @{prefix}_node, @{prefix}_api, @{prefix}_read;
REVOKE ALL ON ALL TABLES IN SCHEMA windlass FROM @{prefix}_node, @{prefix}_api, @{prefix}_read;

-- What the statements of each program need.
@{node_grants}
@{api_grants}
@{read_grants}

-- Tables that a later version of Windlass adds.
ALTER DEFAULT PRIVILEGES FOR ROLE @{owner} IN SCHEMA windlass
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO @{prefix}_node, @{prefix}_api;
ALTER DEFAULT PRIVILEGES FOR ROLE @{owner} IN SCHEMA windlass GRANT SELECT ON TABLES TO @{prefix}_read;
ALTER DEFAULT PRIVILEGES FOR ROLE @{owner} IN SCHEMA windlass
    GRANT USAGE ON SEQUENCES TO @{prefix}_node, @{prefix}_api;

-- `control` has documents of many kinds. The key that signs sessions of the dashboard is for the API alone. Hashes of tokens
-- are also for a read-only server, which has to check tokens. Nodes write only what their pools and breakers decide.
ALTER TABLE windlass.control ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS @{prefix}_node_reads ON windlass.control;
DROP POLICY IF EXISTS @{prefix}_node_adds ON windlass.control;
DROP POLICY IF EXISTS @{prefix}_node_changes ON windlass.control;
DROP POLICY IF EXISTS @{prefix}_api_does ON windlass.control;
DROP POLICY IF EXISTS @{prefix}_read_reads ON windlass.control;
CREATE POLICY @{prefix}_node_reads ON windlass.control FOR SELECT TO @{prefix}_node
    USING (kind NOT IN ('cursor_key', 'token'));
CREATE POLICY @{prefix}_node_adds ON windlass.control FOR INSERT TO @{prefix}_node
    WITH CHECK (kind IN ('breaker', 'pool'));
CREATE POLICY @{prefix}_node_changes ON windlass.control FOR UPDATE TO @{prefix}_node
    USING (kind IN ('breaker', 'pool'));
CREATE POLICY @{prefix}_api_does ON windlass.control TO @{prefix}_api USING (true);
CREATE POLICY @{prefix}_read_reads ON windlass.control FOR SELECT TO @{prefix}_read USING (kind <> 'cursor_key');

-- Lets the server and `windlass doctor` see how long transactions of others have been open. For nodes, the metric is a
-- lower bound: this right also shows the statements of other users of the PostgreSQL server.
GRANT pg_read_all_stats TO @{prefix}_api;
COMMIT;
