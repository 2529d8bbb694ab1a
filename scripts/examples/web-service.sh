# Larder — an embedded, multi-process cache and object store.
# Copyright 2026 the Larder authors. Licensed under Apache-2.0.
# SPDX-License-Identifier: Apache-2.0
#
# Runs the web service and checks what its clients see. scripts/example sources it.
#
# shellcheck shell=bash
# shellcheck disable=SC2154 # bin, work and short are those of scripts/example

# fetch PATH [OPTION...]: the body of a response. Each call is a process and a connection, so the
# kernel selects a worker for it.
fetch() {
  local path=$1
  shift
  curl -sS --max-time 30 "$@" "http://127.0.0.1:$port$path"
}

# status PATH [OPTION...]: the status of a response.
status() { fetch "$@" -o /dev/null -w '%{http_code}'; }

# many COUNT PATH [OPTION...]: the bodies, or what -w selects, of requests at the same time, a line each.
many() {
  local count=$1 path=$2
  shift 2
  seq "$count" | xargs -P "$count" -I{} curl -sS --max-time 30 -w '\n' "$@" \
    "http://127.0.0.1:$port${path}"
}

# The workers that are named in the headers of responses on standard input, one a line.
workers() { tr -d '\r' | sed -n 's/^x-worker: //p' | sort -u; }

# metric NAME: the value of a metric of the store.
metric() { fetch /metrics | sed -n "s/^$1{.*} //p"; }

# lines PATTERN: the number of lines of the service's output.
lines() { grep -c -e "$1" "$work/service.log" || true; }

# eventually SECONDS COMMAND...: repeats a command until it succeeds.
eventually() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    if [ "$SECONDS" -ge "$end" ]; then return 1; fi
    sleep 0.1
  done
}

has_lines() { [ "$(lines "$1")" -ge "$2" ]; }

start_service() {
  port=$((20000 + RANDOM % 12000))
  # Two processes of one user can share a port, so a service of another run must not have it.
  while curl -s -o /dev/null "http://127.0.0.1:$port/"; do port=$((port + 1)); done
  : >"$work/service.log"
  "$bin/example-web-service" --port "$port" --store "$work/service" >"$work/service.log" 2>&1 &
  service=$!
  if ! eventually 60 has_lines listening 4; then
    wrong "the service does not listen:"
    cat "$work/service.log" >&2
    return 1
  fi
}

check_sessions() {
  local jar=$work/jar requests=40 visits answering
  if [ "$short" = 1 ]; then requests=12; fi
  equal "a new session" "$(status /session -c "$jar" -d Ada)" 201
  for _ in $(seq "$requests"); do
    fetch /session -b "$jar" -D "$work/headers" >"$work/session"
    cat "$work/headers"
  done >"$work/all"
  visits=$(sed 's/.*"visits":\([0-9]*\).*/\1/' "$work/session")
  equal "visits of a session after $requests requests" "$visits" "$requests"
  answering=$(workers <"$work/all" | wc -l)
  if [ "$answering" -lt 2 ]; then wrong "one worker answered $requests connections"; fi
  printf '  workers that answered them: %d\n' "$answering"
  equal "without a session" "$(status /session)" 401
}

check_stampede() {
  local requests=80 before answer slow=0 end
  if [ "$short" = 1 ]; then requests=24; fi
  before=$(metric larder_computations_total)
  many "$requests" /reports/stampede -D "$work/header.{}" -o "$work/body.{}" -w ''
  equal "different answers to $requests requests at once" \
    "$(for answer in "$work"/body.*; do cksum <"$answer"; done | sort -u | wc -l | tr -d ' ')" 1
  equal "computations for them" "$(($(metric larder_computations_total) - before))" 1
  printf '  workers that answered them: %d\n' "$(cat "$work"/header.* | workers | wc -l)"

  # After two seconds the report has expired. Clients get it still, without the second that a new one
  # takes, and later the next one.
  end=$((SECONDS + 30))
  while [ "$SECONDS" -lt "$end" ]; do
    answer=$(fetch /reports/stampede -w ' %{time_total}')
    if awk -v time="${answer##* }" 'BEGIN { exit !(time > 0.9) }'; then slow=$((slow + 1)); fi
    case "$answer" in *'"number":2'*) break ;; esac
    sleep 0.1
  done
  case "$answer" in
    *'"number":2'*) printf '  an expired answer is replaced\n' ;;
    *) wrong "an expired answer is not replaced: $answer" ;;
  esac
  equal "clients that waited for the new answer" "$slow" 0
  equal "a missing report" "$(status /reports/missing)" 404
}

check_names() {
  local codes begun permitted
  # Several clients, so that none is limited. Only Linux has all these addresses.
  if [ "$(uname -s)" = Linux ]; then
    codes=$(many 8 /names/ada --interface '127.0.0.1{}' -X PUT -o /dev/null -w '%{http_code}\n' |
      sort | uniq -c | awk '{ printf "%s x %s ", $1, $2 }')
    equal "a name that eight clients request" "$codes" "1 x 201 7 x 409 "
  fi

  # Four workers with a limit each would permit 20. A client has another request in five seconds, and a
  # busy machine takes some.
  begun=$SECONDS
  many 30 '/names/n{}' -X PUT -o /dev/null -D - -w '' >"$work/answers"
  codes=$(grep -c '^HTTP/1.1 201' "$work/answers")
  permitted=$((5 + (SECONDS - begun + 1 + 4) / 5))
  if [ "$codes" -lt 5 ] || [ "$codes" -gt "$permitted" ]; then
    wrong "$codes of 30 requests are permitted, not 5 to $permitted"
  fi
  printf '  requests of one client that are permitted: %d of 30\n' "$codes"
  equal "others with Retry-After" "$(grep -ci '^Retry-After: 5' "$work/answers")" $((30 - codes))
  if [ "$(uname -s)" = Linux ]; then
    equal "another client" "$(status /names/other -X PUT --interface 127.0.0.99)" 201
  fi
  is_permitted() { [ "$(status "/names/later$RANDOM" -X PUT)" = 201 ]; }
  if eventually 20 is_permitted; then printf '  later the client is permitted again\n'; else
    wrong "a limited client is not permitted again"
  fi
}

check_metrics() {
  fetch /metrics >"$work/metrics"
  equal "larder_processes" "$(sed -n 's/^larder_processes{.*} //p' "$work/metrics")" 4
  for name in larder_hits_total larder_commit_duration_seconds_count hb_requests; do
    if ! grep -q "^$name{" "$work/metrics"; then wrong "/metrics has no $name"; fi
  done
}

check_kill() {
  local victim failed=0
  victim=$(fetch /metrics -D - -o /dev/null | workers)
  kill -9 "$victim"
  if ! eventually 10 has_lines "worker $victim: killed by signal 9" 1; then
    wrong "the supervisor does not see the death of worker $victim"
  fi
  for _ in $(seq 40); do
    if [ "$(status /session -b "$work/jar")" != 200 ]; then failed=$((failed + 1)); fi
  done
  equal "requests that fail after worker $victim was killed" "$failed" 0
  if eventually 60 has_lines listening 5; then printf '  another worker takes its place\n'; else
    wrong "no worker takes the place of $victim"
  fi
}

check_shutdown() {
  local result=0 request
  fetch /reports/last -v >"$work/last" 2>"$work/progress" &
  request=$!
  eventually 10 grep -q '^> GET' "$work/progress" || wrong "the last request was not sent"
  sleep 0.6
  kill -TERM "$service"
  wait "$request" || wrong "the last request fails: $(cat "$work/progress")"
  equal "a request during the shutdown" "$(sed 's/.*"name":"\([a-z]*\)".*/\1/' "$work/last")" last
  wait "$service" || result=$?
  service=""
  equal "exit status after SIGTERM" "$result" 0
  equal "workers that stopped" "$(lines ': stopped$')" 4
}

check_web_service() {
  local seen=0
  start_service || return 0
  check_sessions
  check_stampede
  check_names
  check_metrics
  check_kill
  check_shutdown
  seen=$(grep -ci -e 'error' -e 'fatal' "$work/service.log" || true)
  if [ "$seen" -gt 0 ]; then
    wrong "the service reported errors:"
    cat "$work/service.log" >&2
  fi
}
