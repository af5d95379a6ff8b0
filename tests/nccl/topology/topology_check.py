#!/usr/bin/env python3
"""Holds what real NCCL finds on software machines against `railwise topo show` and `explain`.

  topology_check.py BUILD [--out DIR] [--only NAME,...] machines     every machine of machines/
  topology_check.py BUILD [--out DIR] [--only NAME,...] shared DIR   ten real machines of a collection of topology files, and those that say only part

BUILD: a build tree for which ../prepare has run. For each host: every path that NCCL prints (type, bandwidth, hops), its rings and trees (channels,
bandwidth, types, order of GPUs, NICs), NIC, relaying rank and GPUDirect of each end of each connection, and every attribute of NCCL's dump.
Exit status: 0 all equal, 1 something differs or does not work, 77 this machine lacks what it needs.
"""
import argparse
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
sys.dont_write_bytecode = True
import own_machines  # noqa: E402
import shared_machines  # noqa: E402
import software_nccl  # noqa: E402
from compare import Score  # noqa: E402
from unavailable import exit_status  # noqa: E402

MOST_COMPLAINTS = 5  # of one machine are printed


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, metavar="BUILD")
    parser.add_argument("--out", type=pathlib.Path, help="folder for logs (default: a temporary one)")
    parser.add_argument("--only", type=lambda text: text.split(","), help="only these, by name")
    what = parser.add_subparsers(dest="what", required=True)
    what.add_parser("machines")
    what.add_parser("shared").add_argument("collection", type=pathlib.Path, metavar="DIR")
    return parser.parse_args()


def check(options, out):
    build = options.build.resolve()
    nccl = software_nccl.prepared(build)
    if options.what == "machines":
        cases = own_machines.cases(nccl, build, out, nccl.release)
    else:
        cases = shared_machines.cases(nccl, build, out, nccl.release, options.collection)
    if options.only:
        cases = [case for case in cases if case.name in options.only]
    total = Score()
    print(f"NCCL {nccl.release}; compared: paths, rings and trees, ends of their connections and of sends and "
          "receives, attributes of dumps")
    for case in cases:
        score = case.run()
        cut = f" ({score.cut} cut off)" if score.cut else ""
        print(f"{'FAIL' if score.complaints else 'ok  '} {case.name}: {score.paths} paths{cut}, {score.graphs} graphs, {score.rings} + {score.sends} "
              f"ends, {score.attributes} attributes, {len(score.complaints)} differ", flush=True)
        for complaint in score.complaints[:MOST_COMPLAINTS]:
            print(f"     {complaint}")
        total.add(score)
    print(f"{len(cases)} runs: {total.paths} paths, {total.graphs} rings and trees, {total.rings} + {total.sends} ends of connections, "
          f"{total.attributes} attributes; {len(total.complaints)} differ; logs: {out}")
    return 1 if total.complaints or not cases else 0


def main():
    options = arguments()
    out = (options.out or pathlib.Path(tempfile.mkdtemp(prefix="nccl-topology-"))).resolve()
    return exit_status("nccl topology", lambda: check(options, out))


if __name__ == "__main__":
    sys.exit(main())
