"""packaging/container's install.sh --node, as the DaemonSet of packaging/kubernetes runs it: the node is a software machine, and folders
of the test stand for those of the host.

Usage: installer_test.py RAILWISE MACHINES
"""

import re
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
from export_runs import expect, run  # noqa: E402

SCRIPT = Path(__file__).resolve().parents[3] / "packaging" / "container" / "installer" / "install.sh"


def main(railwise: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for made in ("bin", "opt", "usr/lib/x86_64-linux-gnu"):
            (folder / made).mkdir(parents=True)
        programs = {"railwise": f'#!/bin/sh\ncase $1 in topo) set -- "$@" --machine dgx ;; esac\nexec {railwise} "$@"\n',
                    "install.sh": re.sub(r"(?<![\w/])/(?=usr/lib/\*)", f"{folder}/", SCRIPT.read_text())}
        for program, text in programs.items():
            (folder / "bin" / program).write_text(text)
            (folder / "bin" / program).chmod(0o755)
        (folder / "usr/lib/x86_64-linux-gnu/libnccl-net-railwise.so").write_text("a library")
        opt = folder / "opt/railwise"
        for _ in range(2):  # a restart finds its own files
            done = run(["install.sh", "--node", str(opt)], PATH=f"{folder}/bin:/usr/bin:/bin", RAILWISE_PREFIX="/opt/railwise")
            expect(done.returncode, 0, done.stderr)
        expect((opt / "lib/libnccl-net-railwise.so").read_text(), "a library", "the plugin")
        sourced = run(["sh", "-ec", f". {opt}/railwise-env.sh; echo $NCCL_NET_PLUGIN $LD_LIBRARY_PATH"], PATH="/usr/bin:/bin")
        expect(sourced.stdout, "railwise /opt/railwise/lib\n", "the variables")
        expect("topo export --for env" in (opt / "railwise-env.sh").read_text(), True, "the variables of the node")
        left = [path.name for path in folder.rglob("*") if path.name.startswith(".") or ".new." in path.name]
        expect(left, [], "temporary files")


if __name__ == "__main__":
    main(str(Path(sys.argv[1]).resolve()))
