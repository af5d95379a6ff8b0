"""Two ranks with plugins of two versions of the protocol, as in a rolling upgrade: where they have a version in common,
their data are right, also over a port that fails; where they have none, each rank ends at once with the node to upgrade.

Usage: neighbours_test.py RAILWISE PLUGIN NEXT LATER
"""
import itertools
import os
import subprocess
import sys

LIMIT_S = 60
# The first port of both ranks fails in the middle of the first size.
FAILING = "software:count=2,fault=device=soft0 opcode=any nth=40 port=down"
jobs = itertools.count()


def job(railwise, plugins, operation, device):
    """Exit codes and output of the ranks, rank i with plugins[i]."""
    fabric = f"neighbours{os.getpid()}-{next(jobs)}"
    ranks = []
    for rank, plugin in enumerate(plugins):
        environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(len(plugins)),
                           LOCAL_WORLD_SIZE=str(len(plugins)), MASTER_ADDR="127.0.0.1", MASTER_PORT="0",
                           NCCL_SOCKET_IFNAME="lo", NCCL_DEBUG="WARN", RAILWISE_FABRIC=fabric, TORCHELASTIC_RUN_ID=fabric)
        command = [railwise, "perf", operation, "-b", "8", "-e", "1M", "-f", "8", "-n", "10", "--timeout", "20",
                   "--plugin", plugin, "--device", device]
        ranks.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    try:
        output = [rank.communicate(timeout=LIMIT_S)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    return [rank.returncode for rank in ranks], output


def main(railwise, plugin, following, later):
    failures = []

    def expect(condition, message, output):
        if not condition:
            failures.append(message + "\n" + "\n".join(output))

    for operation, device in (("all_reduce", "software:count=2"), ("all_reduce", FAILING), ("put_signal", "software:count=2")):
        for plugins in ((plugin, following), (following, plugin), (following, later)):
            codes, output = job(railwise, plugins, operation, device)
            names = " and ".join(os.path.basename(name) for name in plugins)
            expect(codes == [0, 0], f"{operation} over {device} with {names} ends with {codes}", output)
            expect("fault=" not in device or "port is down" in "".join(output), f"{names}: no port has failed", output)
    for plugins in ((plugin, later), (later, plugin)):
        codes, output = job(railwise, plugins, "all_reduce", "software:count=2")
        expect(all(codes), f"no version in common: {codes}", output)
        text = "".join(output)
        expect("speaks protocol version 16 of Railwise, this end 17 to 18: upgrade Railwise on" in text
               or "speaks protocol version 17 to 18 of Railwise, this end 16: upgrade Railwise on this node" in text,
               "nobody says which node to upgrade", output)
    print("\n".join(failures) or "all right")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
