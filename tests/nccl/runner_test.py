"""scripts/nccl-check without a GPU and without NCCL: a program in the place of nccl_check says what a rank says, and writes the log that
NCCL writes. usage: runner_test.py BUILD-TREE
"""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

BUILD = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import job  # noqa: E402

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/nccl-check"

RANK = r'''#!/usr/bin/env python3
import os, sys, time
mode = "@MODE@"
rank = int(sys.argv[sys.argv.index("--rank") + 1])
net = os.environ["NCCL_NET"]
seen = "Socket" if mode == "fallback" else net
if mode == "hang" and rank == 1:
    time.sleep(1000)
print("versions nccl 22809 cuda 13000 driver 13000 gpu NVIDIA H100 80GB HBM3")
if mode == "wrong" and rank == 1:
    print("WRONG all_reduce: 3 elements of 64 bytes")
    sys.exit(1)
print("ok all_reduce")
if "--figures" in sys.argv:
    for size in (8, 32, 128):
        print(f"figure all_reduce {size} {size * (2 if net == 'Socket' else 1)}.00")
with open(os.environ["NCCL_DEBUG_FILE"], "w") as log:
    def say(text): print("node:1:1 [0] NCCL INFO " + text, file=log)
    say(f"ncclCommInitRankConfig comm 0x1 rank {rank} nranks 2 cudaDev 0 nvmlDev 0 busId {'1b000' if rank == 0 else '43000'} commId 0x1 - Init COMPLETE")
    if "RAILWISE_TOPOLOGY" in os.environ:
        say("NCCL_TOPO_FILE set by environment to " + os.environ["RAILWISE_TOPOLOGY"])
    say(f"NET/Plugin: Loaded net plugin {net} (v11)")
    say(f"Assigned NET plugin {seen} to comm")
    say(f"Using network {seen}")
    say(f"NET/{net} : GPU Direct RDMA Disabled for HCA 0 'soft0'")
    say(f"NET/{net} : GPU Direct RDMA Disabled for HCA 1 'soft1'")
    for channel in range(2):
        device = 1 - channel if mode == "crossed" else channel
        say(f"Channel {channel:02d}/1 : {rank}[0] -> {1 - rank}[0] [send] via NET/{net}/{device}/Shared")
if rank == 0:
    with open(os.environ["NCCL_TOPO_DUMP_FILE"], "w") as dump:
        dump.write("""@DUMP@""")
'''

# One GPU, two NICs equally near: channels take turns.
TOPOLOGY = '''<system version="1">
  <cpu host_hash="0x1" numaid="0" affinity="ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:10:00.0" class="0x030200" vendor="0x10de" device="0x2330" subsystem_vendor="0x10de" subsystem_device="0x16c1" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="90" rank="0" gdr="0"/>
    </pci>
    <nic>
      <net name="soft0" dev="0" latency="0.000000" speed="400000" port="1" guid="0x1" maxconn="131072" gdr="0"/>
      <net name="soft1" dev="1" latency="0.000000" speed="400000" port="1" guid="0x2" maxconn="131072" gdr="0"/>
    </nic>
  </cpu>
</system>
'''


def load():
    loader = importlib.machinery.SourceFileLoader("nccl_check", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("nccl_check", loader))
    loader.exec_module(module)
    return module


class Runner(unittest.TestCase):
    def judged(self, mode, *words, gpu="real"):
        """(exit status, what was said) of the script, whose ranks behave in this way."""
        check = load()

        def program(out):
            path = out / "nccl_check"
            path.write_text(RANK.replace("@MODE@", mode).replace("@DUMP@", TOPOLOGY))
            path.chmod(0o755)
            return path

        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as said, contextlib.ExitStack() as patches:
            stand_in = check.software_nccl.SoftwareNccl(program(pathlib.Path(folder)).parent, pathlib.Path(folder), "2.28.9")
            for module, name, value in ((job, "LIMIT_S", 60 if mode != "hang" else 2),
                                        (check.real_gpu, "compile_program", lambda out, *_: program(out)),
                                        (check.real_gpu, "find_cuda", lambda *_: ("", "")), (check.real_gpu, "find_nccl", lambda *_: ("", "")),
                                        (check.real_gpu, "require_gpu", lambda: None),
                                        (check.software_nccl, "prepare", lambda *_: stand_in)):
                patches.enter_context(unittest.mock.patch.object(module, name, value))
            place = ["--ranks", "2"] if gpu == "real" else ["--machine", "count=2", "--gpus", "1"]
            sys.argv[1:] = ["--gpu", gpu, "--build", str(BUILD), "--out", folder, *place, *words]
            status = check.main()
            for name in ("figures.md", "figures.svg") if status == 0 and "--no-figures" not in words else ():
                self.assertTrue((pathlib.Path(folder) / name).stat().st_size > 100, name)
        return status, said.getvalue()

    def test_all_right(self):
        status, said = self.judged("good")
        self.assertEqual(status, 0, said)
        self.assertIn("| all_reduce | 32 B | 32.0 | 64.0 | 2.00 |", said)
        self.assertIn("| 0 | rank0 | 0000:1b:00.0 | soft0 (1), soft1 (1) | (no network) |", said)
        self.assertIn("verdict: all right, NCCL 22809 on a real GPU, 2 ranks", said)

    def test_all_right_on_software_gpus(self):
        status, said = self.judged("good", gpu="software")
        self.assertEqual(status, 0, said)
        self.assertIn("| all_reduce | 32 B | 32.0 | 64.0 | 2.00 |", said)
        self.assertRegex(said, r"\| 1 \| \S+ \| 0000:43:00.0 \| soft0 \(1\), soft1 \(1\) \| \(no network\) \|")
        self.assertIn("verdict: all right, NCCL 22809 on software GPUs, 2 ranks", said)

    def test_more_gpus_than_the_machine_has(self):
        status, said = self.judged("good", "--machine", "dgx", "--gpus", "9", gpu="software")
        self.assertEqual(status, 1)
        self.assertIn("--gpus 9: host A of machine dgx has fewer", said)

    def test_nothing_is_prepared(self):
        with tempfile.TemporaryDirectory() as empty:
            status, said = self.judged("good", "--build", empty, "--prepared", gpu="software")
            self.assertEqual(status, 1)
            self.assertIn("has not been run", said)
            (pathlib.Path(empty) / "nccl-prepared.json").write_text('{"unavailable": "no headers of CUDA"}')
            status, said = self.judged("good", "--build", empty, "--prepared", gpu="software")
            self.assertEqual(status, 77)
            self.assertIn("skipped: no headers of CUDA", said)

    def test_a_wrong_element(self):
        status, said = self.judged("wrong", "--no-figures")
        self.assertEqual(status, 1)
        self.assertIn("rank 1 ended with status 1: WRONG all_reduce: 3 elements of 64 bytes", said)

    def test_a_fallback(self):
        status, said = self.judged("fallback", "--no-figures")
        self.assertEqual(status, 1)
        self.assertIn("networks in use: Socket", said)

    def test_another_nic_than_explained(self):
        status, said = self.judged("crossed", "--no-figures")
        self.assertEqual(status, 1)
        self.assertIn("rank 0, channel 0: NCCL sends by soft1, railwise explain says soft0", said)

    def test_all_reduce_perf(self):
        for words, expected in (("# Out of bounds values : 0 OK", 0), ("# Out of bounds values : 7 FAILED", 1)):
            with tempfile.TemporaryDirectory() as tools:
                for name, body in (("mpirun", 'shift 4; OMPI_COMM_WORLD_RANK=0 exec "$@"'),
                                   ("all_reduce_perf", f'[ "$NCCL_HOSTID" = rank0 ] && echo "{words}"')):
                    path = pathlib.Path(tools) / name
                    path.write_text("#!/bin/sh\n" + body + "\n")
                    path.chmod(0o755)
                with unittest.mock.patch.dict(os.environ, {"PATH": f"{tools}:{os.environ['PATH']}"}):
                    status, said = self.judged("good", "--no-figures", "--all-reduce-perf", f"{tools}/all_reduce_perf")
            self.assertEqual(status, expected, said)

    def test_a_rank_that_hangs(self):
        status, said = self.judged("hang", "--no-figures")
        self.assertEqual(status, 1)
        self.assertIn("rank 1 did not end within 2 s", said)


if __name__ == "__main__":
    unittest.main()
