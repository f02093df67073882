-- Creates a database and a role for Windlass that is not a superuser. Run it as a superuser, once:
--   WINDLASS_PASSWORD='a long random password' psql -f windlass-role.sql
-- That needs psql 15 or newer; the server may be PostgreSQL 14.
-- The URL is then postgresql://@{role}:PASSWORD@@HOST/@{database}. The role owns its database, so that every program can
-- create and migrate the tables when it starts. It can do nothing outside of it. `windlass deploy roles` adds roles with
-- fewer rights for nodes, servers and reports; this one is then needed only for `windlass db migrate`.
\set ON_ERROR_STOP on
-- From the environment, because other users of the machine can read command lines.
\getenv password WINDLASS_PASSWORD
CREATE ROLE @{role} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD :'password';
CREATE DATABASE @{database} OWNER @{role};
-- Nobody else may connect.
REVOKE ALL ON DATABASE @{database} FROM PUBLIC;
-- Lets nodes and `windlass doctor` see how long transactions of others have been open.
GRANT pg_read_all_stats TO @{role};
\connect @{database}
-- PostgreSQL 14 lets everybody create tables there.
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
