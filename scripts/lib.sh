# Larder — an embedded, multi-process cache and object store.
# Copyright 2026 the Larder authors. Licensed under Apache-2.0.
# SPDX-License-Identifier: Apache-2.0
#
# Functions of the other scripts. Source it. It must work in bash 3.2, the version of macOS: no
# associative arrays, no mapfile, and with `set -u` an empty array is written
# ${array[@]+"${array[@]}"}.
#
# shellcheck shell=bash

# EX_UNAVAILABLE of sysexits.h: a requirement is missing on this machine.
LARDER_UNAVAILABLE=69

# Prints the package's directory.
larder_root() {
  (cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
}

# The traits of the short tests, and those of all tests. A feature behind another trait has no code, and no
# test, in a build without it.
# shellcheck disable=SC2034 # used by those that source this
SHORT_TRAITS="Tools,FaultInjection"
ALL_TRAITS="Tools,FaultInjection,Macros,Combine,Logging,Metrics,Tracing,RedisTLS"

# test_build TRAITS: sets build_options to the options of the tests' build with these traits, and build_directory to
# its scratch directory. With LARDER_STRICT=1 a warning is an error, and an import that Package.swift does not
# name; .ci/run sets it for scripts/test and scripts/check, so that both use one build. Without debugging information
# the build takes two thirds of the time; `swift test` alone has it.
test_build() {
  export LARDER_QUICK_BUILD=1
  build_directory=.build-test
  build_options=(--traits "$1" -Xswiftc -gnone)
  if [ "$1" = "$ALL_TRAITS" ]; then build_directory=.build-all; fi
  if [ "${LARDER_STRICT:-}" = 1 ]; then
    build_directory=$build_directory-strict
    build_options+=(-Xswiftc -warnings-as-errors --explicit-target-dependency-import-check error)
  fi
  build_options+=(--scratch-path "$build_directory")
}

# chains SELECTION...: prints the rows of scripts/test-chains that SELECTION names. It is a number K for the rows
# of part K and of all parts, `name:NAME`, `path:PATH` for those that a change of the file PATH of the package can
# break, or `all`. These are the chains of a directory that contains the file, those that test a promise which the file
# keeps (Tests/PROMISES.md), and those of its tests; a file of a test target without a test belongs to all of them. An
# article breaks none.
chains() {
  local root
  root=$(larder_root)
  printf '%s\n' "$@" | awk '
    # Whether a change of the file selects the chain of the row in `cell`.
    function breaks(file,   i, count, path, target, module, isShared) {
      if (file ~ /[.]md$/) return 0
      if ((file, cell[1]) in keeps) return 1
      count = split(cell[5], path, " ")
      for (i = 1; i <= count; i++) if (index(file, path[i]) == 1) return 1
      target = file
      if (!sub(/^Tests\//, "", target)) return 0
      module = target
      sub(/\/.*/, "/", module)
      isShared = module != target && target !~ /Tests[.]swift$/
      count = split(cell[4], path, " ")
      for (i = 1; i <= count; i++)
        if (path[i] == target || path[i] == module || (isShared && index(path[i], module) == 1)) return 1
      return 0
    }
    FILENAME == "-" { wanted[++count] = $0; next }
    FILENAME ~ /[.]md$/ {
      if (!/^\|/ || split($0, cell, / *\| */) != 6) next
      gsub(/`/, "", cell[3])
      tiers = split(cell[5], tier, /, */)
      for (i = 1; i <= tiers; i++) keeps[cell[3], tier[i]] = 1
      next
    }
    /^ *(#|$)/ { next }
    {
      split($0, cell, / *\| */)
      for (i = 1; i <= count; i++) {
        isWanted = wanted[i] == "all" || wanted[i] == cell[2] || wanted[i] == "name:" cell[1] \
          || (cell[2] == "*" && wanted[i] ~ /^[0-9]+$/)
        if (wanted[i] ~ /^path:/ && breaks(substr(wanted[i], 6))) isWanted = 1
        if (isWanted) { print; next }
      }
    }' - "$root/Tests/PROMISES.md" "$root/scripts/test-chains"
}

# swift build, which compiles what has changed. SwiftPM passes the traits of a package to the compiler in the
# order of a set: without this variable it is another order in each run, and everything is compiled again.
# A package that uses this one by its path is planned again each time (--package-path): SwiftPM keeps the plan
# of the last build although files of the other package are new or gone.
swift() {
  local word command=${1:-}
  case "$command" in
    build | run | test) shift ;;
    *)
      command swift "$@"
      return
      ;;
  esac
  for word in "$@"; do
    if [ "$word" = --package-path ]; then
      set -- --disable-build-manifest-caching "$@"
      break
    fi
  done
  # Tests would inherit the variable: what they compile has been built before, or has no traits.
  if [ "$command" = test ]; then
    command swift test "$@"
  else
    SWIFT_DETERMINISTIC_HASHING=1 command swift "$command" "$@"
  fi
}

# build_client PRODUCT: builds a program of scripts/external-client optimised, in .build-client, and prints its path.
# On Linux the programs contain the runtime, because scripts/check limits the size of such a program; elsewhere the
# runtime belongs to the system.
build_client() {
  local root options directory
  root=$(larder_root)
  options=(-c release --package-path "$root/scripts/external-client" --scratch-path "$root/.build-client")
  if [ "$(uname -s)" = Linux ]; then options+=(--static-swift-stdlib); fi
  swift build "${options[@]}" --product "$1" >&2 || return
  directory=$(swift build "${options[@]}" --show-bin-path) || return
  echo "$directory/$1"
}

# demo_build: sets build_options to those of the demo, its tests included. A stranger waits for this build: the program
# and the bottom modules are optimised, the rest is not, and that takes half the time of a release build.
demo_build() {
  export LARDER_QUICK_BUILD=1
  build_options=(--package-path "$(larder_root)/scripts/demo-program" --scratch-path "$(larder_root)/.build-demo"
    -Xswiftc -gnone)
}

# build_hosts: builds the peer of the tests (Tests/LarderPeer) optimised, with its hosts of one Redis server, and
# prints its path.
build_hosts() {
  local root options
  root=$(larder_root)
  options=(-c release --package-path "$root" --scratch-path "$root/.build-hosts" --traits "Tools,Redis" --product LarderPeer)
  swift build "${options[@]}" >&2 || return
  echo "$(swift build "${options[@]}" --show-bin-path)/LarderPeer"
}

say() { printf '%s\n' "$*" >&2; }

# phase TEXT: prints the phase of a long script, with the time since its start.
phase() { say "== $(basename "$0"), $((SECONDS / 60)) min $((SECONDS % 60)) s: $*"; }

# find_module_maps BUILD: sets module_maps to the options that name the C modules of a build (SCRATCH/debug), with
# which the compiler can be called directly.
find_module_maps() {
  local map
  module_maps=(-Xcc "-fmodule-map-file=$(larder_root)/Modules/CLarderLMDB/module.modulemap")
  # Of other packages: those that the build has written, and those in the packages.
  for map in "$1"/*.build/module.modulemap \
    "$(dirname "$1")"/checkouts/*/Sources/*/include/module.modulemap; do
    if [ -f "$map" ]; then module_maps+=(-Xcc "-fmodule-map-file=$map"); fi
  done
}

# with_limit MINUTES COMMAND...: runs a command. When the time is up, it prints where the threads of its
# processes are and kills them: a test that never ends says nothing of itself.
with_limit() {
  local minutes=$1 status=0 command watch
  shift
  "$@" &
  command=$!
  # It ends with the command or a second later, and holds none of the caller's files open, on which a pipe would wait.
  (
    end=$((SECONDS + minutes * 60))
    while [ "$SECONDS" -lt "$end" ]; do
      kill -0 "$command" || exit 0
      sleep 1
    done </dev/null >/dev/null 2>&1
    say "== $* has not ended within $minutes minutes."
    # shellcheck disable=SC2046 # the identifiers are words
    print_threads $(descendants "$command")
    # shellcheck disable=SC2046
    kill -9 "$command" $(descendants "$command") 2>/dev/null
  ) &
  watch=$!
  # A command in the background ignores the signal of the terminal.
  # shellcheck disable=SC2046,SC2064 # words; the identifiers are known now
  trap "kill -9 $watch $command \$(descendants $command) 2>/dev/null; exit 130" INT TERM
  wait "$command" || status=$?
  trap - INT TERM
  # Not a signal with a trap: a process that has only begun has those of the caller.
  kill -9 "$watch" 2>/dev/null || true
  wait "$watch" 2>/dev/null || true
  return "$status"
}

# Prints the identifiers of all processes that PID has started, and that these have started.
descendants() {
  ps -A -o pid= -o ppid= | awk -v root="$1" '
    { parent[$1] = $2 }
    END {
      for (pid in parent) {
        ancestor = pid
        while (ancestor in parent && ancestor != root) ancestor = parent[ancestor]
        if (ancestor == root && pid != root) print pid
      }
    }'
}

# Prints the calls of all threads of processes, with a debugger if there is one that works.
print_threads() {
  local pid thread
  for pid in "$@"; do
    ps -o pid=,ppid=,stat=,etime=,args= -p "$pid" | cut -c 1-200 >&2 || continue
    case "$(ps -o comm= -p "$pid")" in
      swift | swift-test | swift-build | sh | bash | tee) continue ;;
      *) ;;
    esac
    if lldb --version >/dev/null 2>&1; then
      lldb --batch -p "$pid" -o 'thread backtrace all' -o detach 2>/dev/null |
        grep -E '^ *(\* )?(thread|frame) ' | cut -c 1-300 | head -n 600 >&2 || true
    elif command -v gdb >/dev/null 2>&1; then
      gdb --batch -p "$pid" -ex 'thread apply all backtrace' 2>/dev/null |
        grep -E '^(Thread|#)' | cut -c 1-300 | head -n 600 >&2 || true
    else
      # What the kernel knows: the name, the state and the system call of each thread.
      for thread in /proc/"$pid"/task/*; do
        say "$(cat "$thread/comm") $(sed 's/.*) \(.\).*/\1/' "$thread/stat") $(cat "$thread/syscall" 2>&1)"
      done
    fi
  done
}

# Prints the comment at the top of a script, which is its help.
print_help() {
  awk 'NR > 5 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$1"
}

# Exits unless a Swift that can build the package is in PATH.
require_swift() {
  local wanted found
  wanted=$(sed -n 's|^// swift-tools-version: *\([0-9.]*\).*|\1|p' "$(larder_root)/Package.swift")
  if ! type -P swift >/dev/null; then
    say "There is no swift in PATH. Larder needs Swift $wanted or newer:"
    say "https://www.swift.org/install (on macOS, Xcode brings it)."
    exit "$LARDER_UNAVAILABLE"
  fi
  found=$(swift --version 2>/dev/null || true)
  found=$(printf '%s\n' "$found" | sed -n 's/.*Swift version \([0-9][0-9.]*\).*/\1/p')
  if [ -z "$found" ] || ! version_is_at_least "$found" "$wanted"; then
    say "$(type -P swift) is Swift ${found:-of an unknown version}. Larder needs $wanted or newer:"
    say "https://www.swift.org/install (on macOS, Xcode brings it)."
    exit "$LARDER_UNAVAILABLE"
  fi
}

# version_is_at_least FOUND WANTED, as numbers: 6.10 is newer than 6.9.
version_is_at_least() {
  awk -v found="$1" -v wanted="$2" 'BEGIN {
    split(found, f, "."); split(wanted, w, ".")
    for (i = 1; i <= 3; i++) {
      if (f[i] + 0 > w[i] + 0) exit 0
      if (f[i] + 0 < w[i] + 0) exit 1
    }
    exit 0
  }'
}

# Whether the compiler will find liblmdb's header.
#
# LARDER_LMDB_HEADER is the path of the header if it is not in a standard directory.
has_lmdb() {
  local header
  if [ -n "${LARDER_LMDB_HEADER:-}" ]; then
    [ -f "$LARDER_LMDB_HEADER" ]
    return
  fi
  if command -v pkg-config >/dev/null 2>&1 && pkg-config --exists lmdb; then return 0; fi
  for header in /usr/include/lmdb.h /usr/local/include/lmdb.h /opt/homebrew/include/lmdb.h; do
    if [ -f "$header" ]; then return 0; fi
  done
  return 1
}

# Installs liblmdb's development files if they are missing; exits if that is not possible.
require_lmdb() {
  if has_lmdb; then return 0; fi
  say "liblmdb's development files are missing."
  local packages=liblmdb-dev
  if ! command -v pkg-config >/dev/null 2>&1; then packages="$packages pkg-config"; fi
  if command -v apt-get >/dev/null 2>&1; then
    # shellcheck disable=SC2086 # the packages are words
    install_with_apt $packages || true
  elif command -v brew >/dev/null 2>&1; then
    say "Installing them: brew install lmdb"
    brew install lmdb >&2 || true
  fi
  if has_lmdb; then return 0; fi
  say "They could not be installed from here. Install them and try again:"
  say "  Debian, Ubuntu   sudo apt-get install $packages"
  say "  Fedora           sudo dnf install lmdb-devel pkgconf-pkg-config"
  say "  Arch             sudo pacman -S lmdb pkgconf"
  say "  macOS            brew install lmdb"
  exit "$LARDER_UNAVAILABLE"
}

# Installs strace if it is missing and that is possible. Without it, the tests that kill processes and
# exhaust resources at each system call, and those that cut the power, are skipped with a reason.
want_strace() {
  if command -v strace >/dev/null 2>&1; then return 0; fi
  if [ "$(uname -s)" != Linux ]; then return 0; fi
  say "strace is missing; some tests need it."
  if command -v apt-get >/dev/null 2>&1; then install_with_apt strace || true; fi
  if command -v strace >/dev/null 2>&1; then return 0; fi
  say "It could not be installed from here; the tests that need it are left out."
}

# Installs redis-server, and openssl for its certificates, if they are missing and that is possible. Without
# them, the tests of LarderRedis are skipped with a reason.
want_redis() {
  local missing="" program
  for program in redis-server openssl; do
    if ! command -v "$program" >/dev/null 2>&1; then missing="$missing $program"; fi
  done
  if [ -z "$missing" ]; then return 0; fi
  say "Missing, and needed by the tests of several hosts:$missing"
  if command -v apt-get >/dev/null 2>&1; then
    # shellcheck disable=SC2086 # the packages are words
    install_with_apt $missing || true
  elif command -v brew >/dev/null 2>&1; then
    brew install redis openssl >&2 || true
  fi
  if command -v redis-server >/dev/null 2>&1; then return 0; fi
  say "redis-server could not be installed from here; the tests that need it are left out."
}

install_with_apt() {
  local become=""
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
      say "Neither root nor sudo is at hand."
      return 1
    elif sudo -n true 2>/dev/null; then
      become="sudo -n"
    elif [ -t 0 ]; then
      become="sudo"
    else
      say "sudo asks for a password, and there is no terminal to ask at."
      return 1
    fi
  fi
  say "Installing them: $become apt-get install $*"
  # The lists may be old or absent (a fresh container). A failed update is not an error.
  $become env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2 || true
  $become env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "$@" >&2
}

# Parses the arguments of scripts that accept only --help.
help_or_no_arguments() {
  local script=$1
  shift
  case "${1:-}" in
    "") ;;
    -h | --help)
      print_help "$script"
      exit 0
      ;;
    *)
      say "$(basename "$script") takes no arguments. Try --help."
      exit 64
      ;;
  esac
}
