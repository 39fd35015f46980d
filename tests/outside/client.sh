# Sourced by the run script of each client, which scripts/outside starts with
#
#   HALLEY           the binary
#   OUTSIDE_CACHE    a directory for packages of registries, kept between runs
#   OUTSIDE_WORK     an empty directory, removed at the end
#   OUTSIDE_RESULTS  the file of result's rows
#   OUTSIDE_SHORT    not empty for the short form
# shellcheck shell=bash
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[1]}")" && pwd)
accounts=()

# The well-known key of emulators.
export OUTSIDE_KEY='C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=='

# account runs halley emulator with the given flags until the script ends, and sets
# OUTSIDE_ENDPOINT. If --addr is not given, it uses a free port.
account() { serve "$HALLEY" emulator --addr 127.0.0.1:0 "$@"; }

# serve runs the command of an account until the script ends. When the command prints the
# line "endpoint: URL", it sets OUTSIDE_ENDPOINT.
serve() {
  local log=$OUTSIDE_WORK/account${#accounts[@]}.log
  : >"$log"
  "$@" >"$log" 2>&1 &
  accounts+=($!)
  until grep -q '^endpoint: ' "$log"; do
    if ! kill -0 "${accounts[-1]}" 2>/dev/null; then
      cat "$log" >&2
      return 1
    fi
    sleep 0.05
  done
  OUTSIDE_ENDPOINT=$(sed -n 's/^endpoint: //p' "$log")
  export OUTSIDE_ENDPOINT
}

# count reads a number of a TAP report: of tests, or of those that pass.
count() { sed -n "s/^# $1 //p" "$2"; }

# result adds a row to the table: client, version, target, result, and yes if the
# target is met, or skipped if this machine cannot run the client.
result() {
  local met=missed
  case $5 in
    yes) met=met ;;
    skipped) met=skipped ;;
  esac
  printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" "$met" >>"$OUTSIDE_RESULTS"
}

stop_accounts() {
  local pid
  for pid in "${accounts[@]}"; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
}
trap stop_accounts EXIT
