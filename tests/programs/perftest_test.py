"""perftest (Debian: perftest) on the software device: the default path (ibv_wr_*), the old one (ibv_post_send), sleeping
on events, shared receive queues, several queue pairs; on InfiniBand and RoCE. Judged by exit status and by the rows of
results. Speeds are not judged: the machine is shared.

Usage: perftest_test.py RAILWISE PROGRAM
"""
import re
import sys

import program_test

# perftest uses the ibv_wr_* API and inline data on the parts it knows: these are ConnectX-7.
MACHINE = "link=ib,vendor=0x15b3,part=0x1021,max_inline=256;link=roce,vendor=0x15b3,part=0x1021,max_inline=256"
ITERATIONS = 96  # a multiple of the list that is posted at once
OLD = "--use_old_post_send"

# program -> size -> lists of options; every list runs on soft0 and on soft1
WRITES = [[], [OLD], ["-s", "8"], ["-s", "8", OLD], ["-s", "1048576"], ["-q", "4"]]
SENDS = [[], [OLD], ["-e"], ["-e", OLD], ["-s", "8"], ["--use-srq"], ["--use-srq", OLD], ["-c", "UD", "-s", "1024"],
         ["-c", "UD", "-s", "1024", OLD], ["-c", "UD", "-s", "1024", "-e"]]
READS = [[], [OLD], ["-s", "8"], ["-s", "1048576"]]
ATOMICS = [["-A", action, *how] for action in ("FETCH_AND_ADD", "CMP_AND_SWAP") for how in ([], [OLD])]
BOTH_WAYS = [["-b"], ["-b", OLD]]
POSTED_IN_LISTS = [["-l", "8"], ["-l", "8", OLD]]
INLINE = [["-s", "64", "-I", "64"], ["-s", "64", "-I", "64", OLD]]

TESTS = {
    "ib_write_bw": WRITES + BOTH_WAYS + POSTED_IN_LISTS + INLINE,
    "ib_write_lat": WRITES[:4] + INLINE,
    "ib_read_bw": READS + BOTH_WAYS + POSTED_IN_LISTS + [["-e"]],
    "ib_read_lat": READS + [["-e"]],
    "ib_send_bw": SENDS + BOTH_WAYS + POSTED_IN_LISTS + INLINE,
    "ib_send_lat": SENDS + INLINE,
    "ib_atomic_bw": ATOMICS + BOTH_WAYS + [["-e"]],
    "ib_atomic_lat": ATOMICS + [["-e"]],
}


def size_of(program, options):
    if "-s" in options:
        return int(options[options.index("-s") + 1])
    if program.startswith("ib_atomic"):
        return 8
    return 65536 if program.endswith("_bw") else 2


def judge(program, options, outputs):
    """Failure in words when a row of results is missing or senseless. A server of a one-way test prints its own row."""
    size = size_of(program, options)
    for who, output in zip(("client", "server"), outputs):
        if who == "server" and re.match("ib_(read|atomic)", program):
            continue  # the target of a one-sided operation does nothing and prints no row
        if who == "server" and program == "ib_write_bw" and "-b" not in options and not re.search(r"^ *\d+ +\d+ ", output, re.M):
            continue
        api = re.search(r"ibv_wr\* API\s*: (\w+)", output)
        if api and api[1] != ("OFF" if OLD in options else "ON"):
            return f"{who}: ibv_wr* API is {api[1]}"
        rows = re.findall(r"^ *(\d+) +(\d+) +(.*)$", output, re.M)
        if len(rows) != 1:
            return f"{who}: {len(rows)} rows of results"
        queue_pairs = int(options[options.index("-q") + 1]) if "-q" in options else 1
        if int(rows[0][0]) != size or int(rows[0][1]) != ITERATIONS * queue_pairs:
            return f"{who}: size {rows[0][0]} and {rows[0][1]} iterations, not {size} and {ITERATIONS * queue_pairs}"
        numbers = [float(number) for number in rows[0][2].split()]
        # bandwidth: peak (0 without), average, message rate (six digits: a slow one of large messages is not 0)
        # A receiver's clock starts at the first poll that finds something: it stands at 0 when that one finds everything.
        least = 0 if who == "server" and program == "ib_send_bw" and "-b" not in options else 1e-9
        if program.endswith("_bw") and (len(numbers) < 3 or numbers[1] < least or numbers[2] < least):
            return f"{who}: bandwidth of {rows[0][2]}"
        # latency: minimum, maximum, typical, average ...
        if program.endswith("_lat") and (len(numbers) < 4 or not 0 <= numbers[0] <= numbers[2] <= numbers[1] or numbers[1] <= 0):
            return f"{who}: latency of {rows[0][2]}"
    return None


def main(railwise, program):
    program_test.need(program, "perftest")
    report = program_test.Report()
    with program_test.Device(railwise, MACHINE) as device:
        for options in TESTS[program]:
            for name in ("soft0", "soft1"):
                command = (program, "-F", "-d", name, "-n", str(ITERATIONS), *options)
                failure, outputs = device.pair(*command)
                report.check(" ".join(command), failure or judge(program, options, outputs), outputs)
    return report.done()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
