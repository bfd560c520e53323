#!/bin/sh
# Makes the secrets of compose.yaml in deploy/secrets, once, and prints an operator's key. A secret is a file: an environment is
# shown to every program of its user.
set -eu
umask 077
cd "$(dirname "$0")"
mkdir secrets
cd secrets
mkdir providers
hex() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
interlock=$(hex) redis=$(hex) key=$(hex)
hex > postgres
printf %s "$interlock" > postgres-interlock
printf 'requirepass %s\n' "$redis" > redis.conf
printf 'postgres://interlock:%s@postgres/interlock' "$interlock" > store
printf 'redis://:%s@redis' "$redis" > bus
printf 'keys:\n  - { owner: me, operator: true, sha256: %s }\n' "$(printf %s "$key" | sha256sum | cut -d ' ' -f 1)" > keys.yaml
# Only this folder keeps the host's other users out: the servers read theirs as users of their own.
chmod 444 postgres postgres-interlock redis.conf
# The nodes run as 1000. Whoever is neither root nor 1000 has to let every user of the container read them.
if [ "$(id -u)" = 0 ]; then
  chown -R 1000 store bus keys.yaml providers
elif [ "$(id -u)" != 1000 ]; then
  chmod 444 store bus keys.yaml
  chmod 755 providers
fi
echo "your key: $key"
