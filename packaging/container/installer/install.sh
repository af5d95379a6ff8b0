#!/bin/sh
# Puts the plugin where the containers of jobs find it: a folder of the host, or a volume that a pod's containers share.
#
#   install.sh [--node] TARGET
#
#   --node   TARGET is for this node alone: the environment is what `railwise topo export --for env` writes for it
#
#   TARGET/lib/libnccl-net-railwise.so   the plugin; a job that runs keeps the file that it has loaded
#   TARGET/lib/railwise-verbs/           the software device, if the image has it, for `RAILWISE_DEVICE=software` and `railwise device`
#   TARGET/bin/railwise                  the command
#   TARGET/railwise-env.sh               what a job needs in its environment: `. TARGET/railwise-env.sh`
#
# RAILWISE_PREFIX: where the jobs see TARGET (default: TARGET). Exit status: 0 installed, 1 it cannot be, 2 a mistake.
set -eu

node=false
if [ "${1:-}" = --node ]; then node=true; shift; fi
[ $# -eq 1 ] || { echo "usage: install.sh [--node] TARGET" >&2; exit 2; }
target=$1
prefix=${RAILWISE_PREFIX:-$target}
case $target in /*) ;; *) echo "install.sh: $target: give the whole path" >&2; exit 2 ;; esac

plugin=
for folder in /usr/lib/*-linux-gnu /usr/lib64 /usr/lib /usr/local/lib; do
  if [ -f "$folder/libnccl-net-railwise.so" ]; then plugin=$folder/libnccl-net-railwise.so; fi
done
command=$(command -v railwise) || { echo "install.sh: this image has no railwise: install the package railwise-doctor" >&2; exit 1; }
# Jobs source a file with this name in it.
case $prefix in *[!A-Za-z0-9/._-]*) echo "install.sh: $prefix: only letters, digits, / . _ and - can stand in the path" >&2; exit 2 ;; esac
[ -n "$plugin" ] || { echo "install.sh: this image has no libnccl-net-railwise.so: install railwise-nccl-plugin" >&2; exit 1; }

# put FILE NAME: whoever opens NAME finds the old file or the new one, never half of one.
put() {
  cp "$1" "$2.new.$$" && chmod "$3" "$2.new.$$" && mv -f "$2.new.$$" "$2" && return 0
  rm -f "$2.new.$$"
  echo "install.sh: cannot write $2: is $target writable here?" >&2
  exit 1
}

mkdir -p "$target/lib" "$target/bin" || { echo "install.sh: cannot make $target/lib: is $target writable here?" >&2; exit 1; }
put "$plugin" "$target/lib/libnccl-net-railwise.so" 755
for file in "$(dirname "$plugin")"/railwise-verbs/*; do
  { [ -f "$file" ] && [ ! -L "$file" ]; } || continue
  mkdir -p "$target/lib/railwise-verbs" || exit 1
  put "$file" "$target/lib/railwise-verbs/$(basename "$file")" 755
done
put "$command" "$target/bin/railwise" 755
settings=$(mktemp)
trap 'rm -f "$settings"' EXIT
if $node; then
  railwise topo export --for env --output "$settings" ||
    { echo "install.sh: the plugin is installed, but not $target/railwise-env.sh: see above; without --node it is written" >&2; exit 1; }
else
  echo "export NCCL_NET_PLUGIN=railwise" >"$settings"
fi
cat >>"$settings" <<END
# For a job's environment: . $prefix/railwise-env.sh
export LD_LIBRARY_PATH=$prefix/lib\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}
END
put "$settings" "$target/railwise-env.sh" 644
echo "installed: $(railwise version), in $target"
