-- Run once by the image of PostgreSQL, as its superuser. The nodes' role owns its database, and has no rights beyond it.
\set password `cat /run/secrets/postgres-interlock`
CREATE ROLE interlock LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD :'password';
ALTER DATABASE interlock OWNER TO interlock;
