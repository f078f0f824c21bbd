#!/usr/bin/env bash
# Restarts bookies one after the other, each when `auditor margin --now` says GO:
#
#     RESTART=./restart-one-bookie rolling-restart.sh BOOKIE ...
#
# Exit code 0: all were restarted. Else that of the gate, or of RESTART, at the bookie where it stopped.
#
# RESTART   a program that restarts the bookie whose id is its argument, and ends when the bookie is registered again
# AUDITOR   the auditor; default: auditor. Its settings may be in its own variables (AUDITOR_OUTPUT, AUDITOR_CONFIG)
# TRIES     how often the gate is asked for one bookie; default: 60
# PAUSE_S   seconds between two questions; default: 30
set -euo pipefail

readonly EXIT_USAGE=2 EXIT_FAULT=4
tries=${TRIES:-60}
pause_s=${PAUSE_S:-30}

if [[ $# -eq 0 || -z ${RESTART:-} ]]; then
    echo 'rolling-restart: give BOOKIE ..., and a program in RESTART' >&2
    exit "$EXIT_USAGE"
fi

wait_for_go() {
    local bookie=$1 try code
    for ((try = 1; ; try++)); do
        code=0
        "${AUDITOR:-auditor}" margin --now --without "$bookie" || code=$?
        if [[ $code -eq 0 ]]; then
            return
        fi
        if [[ $code -eq $EXIT_USAGE || $code -eq $EXIT_FAULT || $try -ge $tries ]]; then
            printf 'rolling-restart: stopped before %s, the gate ended in %s\n' "$bookie" "$code" >&2
            exit "$code"
        fi
        sleep "$pause_s"
    done
}

for bookie in "$@"; do
    wait_for_go "$bookie"
    "$RESTART" "$bookie"
done
