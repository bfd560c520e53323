-- Run once by a superuser, as by the image of PostgreSQL. The nodes' role owns its database, and has no rights beyond it.
-- Its password is in a file: psql -v password_file=/etc/interlock/postgres-password -f postgres-role.sql
\if :{?password_file}
\else
\set password_file /run/secrets/postgres-interlock
\endif
\set password `cat :'password_file'`
CREATE ROLE interlock LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD :'password';
ALTER DATABASE interlock OWNER TO interlock;
