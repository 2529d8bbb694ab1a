# Larder — an embedded, multi-process cache and object store.
# Copyright 2026 the Larder authors. Licensed under Apache-2.0.
# SPDX-License-Identifier: Apache-2.0
#
# The guard against hot paths that grow: counts their instructions under callgrind, which repeat
# where times do not, and compares them with instructions.txt. scripts/bench sources this after
# scripts/lib.sh.
#
# shellcheck shell=bash

# What a path may take more than its baseline, in percent. The hash secret of a store is random, so
# entries lie elsewhere in the tree each time; single commits feel that most.
GUARD_TOLERANCE=3
GUARD_COMMIT_TOLERANCE=8

# Installs valgrind if it is missing and that is possible; false if there is none.
want_valgrind() {
  if command -v valgrind >/dev/null 2>&1; then return 0; fi
  say "valgrind is missing; the instructions of the hot paths are counted with it."
  if command -v apt-get >/dev/null 2>&1; then install_with_apt valgrind libc6-dbg || true; fi
  command -v valgrind >/dev/null 2>&1
}

# What the counts depend on besides the code: architecture, compiler, liblmdb.
guard_key() {
  local swift lmdb
  swift=$(swift --version 2>/dev/null | sed -n 's/.*Swift version \([0-9][0-9.]*\).*/\1/p' | head -n 1)
  lmdb=$(pkg-config --modversion lmdb 2>/dev/null || echo unknown)
  echo "$(uname -m) swift-$swift lmdb-$lmdb"
}

# count_instructions BINARY SYMBOLS DIRECTORY: prints "PATH INSTRUCTIONS" a line, for one call of each path.
count_instructions() {
  local file symbol dumps=()
  # Collecting takes a pattern; dumping does not.
  for symbol in $2; do dumps+=("--dump-after=$symbol"); done
  # Hashing that is the same in each run, and the copying that every processor has.
  SWIFT_DETERMINISTIC_HASHING=1 SWIFT_BACKTRACE=enable=no \
    GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-AVX512F,-AVX512VL,-ERMS,-FSRM \
    valgrind --tool=callgrind --toggle-collect='guard_path_*' "${dumps[@]}" \
    --callgrind-out-file="$3/counts" "$1" "$3/store" >"$3/log" 2>&1 || {
    say "The hot paths could not be run under valgrind:"
    tail -n 20 "$3/log" >&2
    return 1
  }
  # A dump for each call of a path, in the order of their numbers. A path that is called twice
  # counts the second time.
  for file in $(find "$3" -name 'counts.*' | sort -t . -k 2n); do
    awk '/^desc: Trigger: --dump-after=/ { sub(/.*guard_path_/, ""); path = $1 }
      /^totals: / { total = $2 }
      END {
        if (path == "") exit
        calls = path; sub(/.*_/, "", calls); sub(/_[0-9]*$/, "", path)
        printf "%s %.1f\n", path, total / calls
      }' "$file"
  done | awk '{ if (!($1 in count)) order[++n] = $1; count[$1] = $2 }
    END { for (i = 1; i <= n; i++) print order[i], count[order[i]] }'
}

# guard BINARY PATHS BASELINE [--record]: PATHS is the source whose functions are the paths.
guard() {
  local binary=$1 baseline=$3 symbols key work status=0
  symbols=$(grep -o 'guard_path_[a-z0-9_]*' "$2")
  work=$(mktemp -d "${TMPDIR:-/tmp}/larder-guard.XXXXXX")
  key=$(guard_key)
  count_instructions "$binary" "$symbols" "$work" >"$work/measured" || status=$?
  if [ "$status" = 0 ] && [ ! -s "$work/measured" ]; then
    say "valgrind counted nothing."
    status=1
  fi
  if [ "$status" = 0 ] && [ "${4:-}" = --record ]; then
    { grep -e '^#' "$baseline" || true
      { grep -v -e '^#' "$baseline" || true; } | { grep -v -F -e "$key " || true; }
      sed "s/^/$key /" "$work/measured"
    } >"$work/new"
    cp "$work/new" "$baseline"
    say "$baseline has the counts of this build. Say in the commit why they changed."
  fi
  if [ "$status" = 0 ]; then
    awk -v key="$key" -v usual="$GUARD_TOLERANCE" -v commits="$GUARD_COMMIT_TOLERANCE" '
      FNR == NR { if (index($0, key " ") == 1) { base[$4] = $5; known = 1 } next }
      {
        if (!($1 in base)) { unknown = unknown " " $1; was = "-"; change = "" }
        else {
          was = base[$1]; seen[$1] = 1
          tolerance = $1 ~ /committed/ ? commits : usual
          percent = ($2 / was - 1) * 100
          change = sprintf("%+.1f %%", percent)
          if (percent > tolerance) { change = change "  MORE"; worse = worse " " $1 }
          if (percent < -tolerance) { change = change "  less"; better = better " " $1 }
        }
        printf "%-20s %12s instructions, baseline %12s  %s\n", $1, $2, was, change
      }
      END {
        for (path in base) if (!(path in seen)) missing = missing " " path
        if (!known) {
          print "There is no baseline for " key ": nothing was compared."
          exit 0
        }
        if (better != "") print "Fewer instructions than the baseline; record them:" better
        if (missing != "") { print "Not measured:" missing; exit 1 }
        if (unknown != "") { print "Without a baseline; record them:" unknown; exit 1 }
        if (worse != "") {
          print "More than the tolerance over the baseline:" worse
          print "Mend it, or run scripts/bench guard --record and say in the commit why it is worth it."
          exit 1
        }
        print "All within " usual " % (commits " commits " %) of the baseline for " key "."
      }' "$baseline" "$work/measured" || status=$?
  fi
  rm -rf "$work"
  return "$status"
}
