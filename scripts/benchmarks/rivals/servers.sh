# Larder — an embedded, multi-process cache and object store.
# Copyright 2026 the Larder authors. Licensed under Apache-2.0.
# SPDX-License-Identifier: Apache-2.0
#
# Starts the rivals that are processes and finds those that are packages, for scripts/bench, which
# sources this after scripts/lib.sh. Each is told to the benchmark by a variable, LARDER_BENCH_REDIS
# and so on; where it is not to be had, LARDER_BENCH_REDIS_ABSENT says why.
#
# shellcheck shell=bash

# find_command NAME PACKAGE: whether there is such a command, installed by apt if need be.
find_command() {
  if command -v "$1" >/dev/null 2>&1; then return 0; fi
  say "$1 is missing."
  if command -v apt-get >/dev/null 2>&1; then
    # A package that starts its server would start one for the whole machine.
    RUNLEVEL=1 install_with_apt "$2" || true
  fi
  command -v "$1" >/dev/null 2>&1
}

# wait_for_socket PATH PID: until the server listens, or is gone.
wait_for_socket() {
  local tries=0
  while [ ! -S "$1" ]; do
    tries=$((tries + 1))
    if [ "$tries" -gt 200 ] || ! kill -0 "$2" 2>/dev/null; then return 1; fi
    sleep 0.05
  done
}

# start_rivals DIRECTORY BUILD: servers with their sockets in DIRECTORY, packages below BUILD.
start_rivals() {
  local directory=$1 build=$2
  RIVAL_PIDS=""
  if ! find_command redis-server redis-server; then
    export LARDER_BENCH_REDIS_ABSENT="redis-server is not installed and could not be"
  else
    redis-server --port 0 --unixsocket "$directory/redis" --unixsocketperm 700 --save "" \
      --appendonly no --dir "$directory" --loglevel warning >"$directory/redis.log" 2>&1 &
    RIVAL_PIDS="$RIVAL_PIDS $!"
    if wait_for_socket "$directory/redis" $!; then
      export LARDER_BENCH_REDIS="$directory/redis"
    else
      export LARDER_BENCH_REDIS_ABSENT="redis-server did not start"
    fi
  fi
  if ! find_command memcached memcached; then
    export LARDER_BENCH_MEMCACHED_ABSENT="memcached is not installed and could not be"
  else
    # One thread: there is one client. As root it wants to be told who to be.
    memcached -s "$directory/memcached" -a 700 -m 1024 -I 2m -t 1 -u "$(id -un)" \
      >"$directory/memcached.log" 2>&1 &
    RIVAL_PIDS="$RIVAL_PIDS $!"
    if wait_for_socket "$directory/memcached" $!; then
      export LARDER_BENCH_MEMCACHED="$directory/memcached"
    else
      export LARDER_BENCH_MEMCACHED_ABSENT="memcached did not start"
    fi
  fi
  LARDER_BENCH_PYTHONPATH="$build/python"
  if ! command -v python3 >/dev/null 2>&1; then
    export LARDER_BENCH_DISKCACHE_ABSENT="there is no python3"
  elif [ -e "$LARDER_BENCH_PYTHONPATH/diskcache/__init__.py" ] ||
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
      --target "$LARDER_BENCH_PYTHONPATH" diskcache==5.6.3 >&2; then
    LARDER_BENCH_DISKCACHE="$(larder_root)/scripts/benchmarks/rivals/diskcache_rival.py"
    export LARDER_BENCH_DISKCACHE LARDER_BENCH_PYTHONPATH
    LARDER_BENCH_PYTHON=$(python3 -c 'import sys; print(sys.executable)')
    export LARDER_BENCH_PYTHON
  else
    export LARDER_BENCH_DISKCACHE_ABSENT="pip could not install diskcache 5.6.3"
  fi
}

# Ends what start_rivals started, and nothing else.
stop_rivals() {
  local pid
  for pid in $RIVAL_PIDS; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  RIVAL_PIDS=""
}
