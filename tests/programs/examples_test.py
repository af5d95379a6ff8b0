"""rdma-core's examples (Debian: ibverbs-utils) on the software device, judged by exit status and by what they print.

Usage: examples_test.py RAILWISE PROGRAM
"""
import os
import re
import sys

import program_test

PACKAGE = "ibverbs-utils"
MACHINE = "link=ib,speed=400000;link=roce,speed=100000"  # soft0 and soft1
SIZE = 2000  # fits one datagram
ITERATIONS = 200


def devices(device, report):
    status, output = device.run("ibv_devices")
    rows = dict(line.split() for line in output.splitlines() if line.strip().startswith("soft"))
    right = status == 0 and list(rows) == ["soft0", "soft1"] and all(re.fullmatch("[0-9a-f]{16}", g) for g in rows.values())
    report.check("two devices with GUIDs", None if right and len(set(rows.values())) == 2 else f"status {status}", [output])

    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAILWISE_") or name == "RAILWISE_FABRIC"}
    status, output = device.run("ibv_devices", environment=environment)
    right = status == 0 and re.findall(r"^ *(soft\d+) ", output, re.M) == ["soft0", "soft1"]
    report.check("two devices when nothing is said", None if right else f"status {status}", [output])

    for text, words in (("nonsense", "RAILWISE_DEVICE=nonsense is not known"), ("software:speed=7", "speed")):
        status, output = device.run("ibv_devices", environment={**environment, "RAILWISE_DEVICE": text})
        right = status not in (0, "no end") and "Failed to get IB devices list: Invalid argument" in output and words in output
        report.check(f"RAILWISE_DEVICE={text} is refused", None if right else f"status {status}", [output])


def devinfo(device, report):
    def value(text, key):
        match = re.search(rf"^\s*{re.escape(key)}:?\s+(.*)$", text, re.M)
        return match[1].strip() if match else None

    expected = {
        "soft0": {"transport": "InfiniBand (0)", "state": "PORT_ACTIVE (4)", "link_layer": "InfiniBand",
                  "active_width": "4X (2)", "active_speed": "100.0 Gbps (128)", "active_mtu": "4096 (5)"},
        "soft1": {"transport": "InfiniBand (0)", "state": "PORT_ACTIVE (4)", "link_layer": "Ethernet",
                  "active_width": "4X (2)", "active_speed": "25.0 Gbps (32)", "active_mtu": "4096 (5)"},
    }
    for name, fields in expected.items():
        status, output = device.run("ibv_devinfo", "-v", "-d", name)
        wrong = [f"{key} is {value(output, key)}, not {want}" for key, want in fields.items() if value(output, key) != want]
        for key in ("fw_ver", "node_guid", "board_id", "max_qp", "port_lid", "num_comp_vectors"):
            if not value(output, key):
                wrong.append(f"{key} is missing")
        if (value(output, "port_lid") == "0") == (name == "soft0"):
            wrong.append(f"port_lid is {value(output, 'port_lid')}")
        gid_kinds = re.findall(r"GID\[.*(IB|RoCE v1|RoCE v2)\s*$", output, re.M)
        if name == "soft1" and not gid_kinds:
            wrong.append("GIDs without types")
        if status != 0:
            wrong.append(f"exit status {status}")
        report.check(f"ibv_devinfo -v -d {name}", "; ".join(wrong) or None, [output])
    status, output = device.run("ibv_devinfo", "-d", "nosuch")
    report.check("no such device", None if status not in (0, "no end") else f"exit status {status}", [output])


def printed(outputs):
    """Failure in words when a pingpong did not print its two lines of results."""
    for output in outputs:
        moved = re.search(r"^(\d+) bytes in [\d.]+ seconds = [\d.]+ Mbit/sec", output, re.M)
        if not moved or int(moved[1]) != 2 * SIZE * ITERATIONS:
            return f"not {2 * SIZE * ITERATIONS} bytes: {moved[1] if moved else 'no result'}"
        if not re.search(rf"^{ITERATIONS} iters in [\d.]+ seconds", output, re.M):
            return "no line of iterations"
    return None


def pingpong(program, device, report, *variants, again=lambda failure, outputs: False):
    """`again` tells of a failure that is the program's own: then the pair runs once more, at most twice."""
    for variant in variants:
        for where in (("-d", "soft0"), ("-d", "soft1", "-g", "0"), ("-d", "soft1", "-g", "1")):
            command = (program, *where, "-s", str(SIZE), "-n", str(ITERATIONS), *variant)
            for _ in range(3):
                failure, outputs = device.pair(*command)
                if not again(failure, outputs):
                    break
            report.check(" ".join(command), failure or printed(outputs), outputs)


def left_early(failure, outputs):
    """True when the client's only failure is that the server was gone. The server of ibv_srq_pingpong leaves after
    `-n` messages over all its queue pairs, and the client may just then send one more. A card would try that one again
    for half a second, in which the client ends too; the software device knows at once that the process is gone."""
    client, server = outputs
    gone = "Failed status transport retries exceeded (12)" in client
    return failure == "client: exit status 1" and gone and printed([server]) is None


def srq_pingpong(device, report):
    pingpong("ibv_srq_pingpong", device, report, ("-c",), ("-c", "-e"), ("-c", "-q", "4"), again=left_early)


def rc_pingpong(device, report):
    # -c: every byte is checked; -N: the ibv_wr_* API; -t: time stamps, an extended CQ
    pingpong("ibv_rc_pingpong", device, report, ("-c",), ("-c", "-e"), ("-c", "-N"), ("-c", "-N", "-e"), ("-c", "-t"))
    # Two calls that nothing was said to meet on the user's default fabric, and need no GID.
    with program_test.Device(device.railwise) as default:
        failure, outputs = default.pair("ibv_rc_pingpong", "-s", str(SIZE), "-n", str(ITERATIONS), "-c")
        report.check("two plain calls of railwise device run", failure or printed(outputs), outputs)


TESTS = {
    "ibv_devices": devices,
    "ibv_devinfo": devinfo,
    "ibv_rc_pingpong": rc_pingpong,
    "ibv_srq_pingpong": srq_pingpong,
    "ibv_ud_pingpong": lambda d, r: pingpong("ibv_ud_pingpong", d, r, ("-c",), ("-c", "-e")),
}


def main(railwise, program):
    program_test.need(program, PACKAGE)
    report = program_test.Report()
    with program_test.Device(railwise, MACHINE) as device:
        TESTS[program](device, report)
    return report.done()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
