#!/bin/sh
# Looks at the node before a job starts, as an init container: exit status 0 lets the job start.
#
#   preflight.sh [OPTION...]     options of `railwise doctor`, such as --only rdma,topology
#
#   RAILWISE_PREFLIGHT=error     errors stop the job (default)
#   RAILWISE_PREFLIGHT=strict    warnings stop it too
set -eu

case ${RAILWISE_PREFLIGHT:-error} in
  strict) exec railwise doctor --strict "$@" ;;
  error) ;;
  *) echo "preflight.sh: RAILWISE_PREFLIGHT is error or strict, not '$RAILWISE_PREFLIGHT'" >&2; exit 2 ;;
esac
status=0
railwise doctor "$@" || status=$?
[ "$status" -ge 2 ] || exit 0
exit "$status"
