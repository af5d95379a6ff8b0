"""Two hosts of one machine file on one computer: rdma-core's ibv_rc_pingpong between them, each with its own /sys, from
every rail of one to a rail of the other.

Usage: hosts_test.py RAILWISE
"""
import os
import sys
import time

import program_test

# machine, host, device and options of the server; of the client
PAIRS = (
    ("dgx", ("A", "mlx5_0"), ("B", "mlx5_7"), ()),
    ("cloud-vm", ("vm0", "mlx5_3"), ("vm1", "mlx5_3"), ()),
    ("asymmetric", ("A", "mlx5_2"), ("B", "mlx5_1"), ("-g", "3")),
    ("dual-port", ("A", "mlx5_2"), ("B", "mlx5_1"), ("-g", "3")),
)


def start(device, machine, side, port, options, *server):
    host, name = side
    device.prefix = [device.railwise, "device", "run", "--machine", machine, "--host", host,
                     "--fabric", f"programs{os.getpid()}", "--"]
    # The /sys that the program is shown is the host's: it has the device that the program opens.
    look = f'test -e /sys/class/infiniband/{name}/ports/1/state && exec "$@"'
    return device.start("sh", "-c", look, "sh", "ibv_rc_pingpong", "-d", name, "-n", "200", "-s", "5000", "-c",
                        "-p", str(port), *options, *server)


def exchange(device, report, machine, server, client, options):
    port = program_test.free_port()
    first = start(device, machine, server, port, options)
    deadline = time.monotonic() + program_test.PROGRAM_TIMEOUT_S
    while not program_test.listening(port) and first.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)  # between two looks; the condition decides
    second = start(device, machine, client, port, options, "127.0.0.1")
    outputs = [process.communicate(timeout=program_test.PROGRAM_TIMEOUT_S)[0] for process in (second, first)]
    ends = [second.returncode, first.returncode]
    right = ends == [0, 0] and all("200 iters" in output for output in outputs)
    report.check(f"{machine}: {'/'.join(server)} and {'/'.join(client)}", None if right else f"exit statuses {ends}", outputs)


if __name__ == "__main__":
    program_test.need("ibv_rc_pingpong", "ibverbs-utils")
    result = program_test.Report()
    with program_test.Device(sys.argv[1]) as shared:
        for pair in PAIRS:
            exchange(shared, result, *pair)
    sys.exit(result.done())
