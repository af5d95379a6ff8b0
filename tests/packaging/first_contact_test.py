"""scripts/first-contact: the bundle alone on a stand-in for a machine (`railwise device run`), and what it makes of a machine that
contradicts it. usage: first_contact_test.py SOURCE BUILD [LIBRARIES]: with LIBRARIES (joined by colons, of NCCL and CUDA) also real NCCL."""
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tarfile
import tempfile
import unittest

SOURCE, BUILD = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
LIBRARIES = sys.argv[3] if len(sys.argv) > 3 else None
if LIBRARIES and not (pathlib.Path(LIBRARIES.split(":")[0]) / "libnccl.so.2").exists():
    print("skipped: NCCL is not built here (tests/nccl/prepare)")
    sys.exit(77)
del sys.argv[1:]
MOST_BYTES = 40 << 20  # of the bundle
MACHINE = "@dgx;gpudirect=on"


def contact(script, out, *words, machine=MACHINE):
    """(exit status, report.json, folder) of a run on a stand-in."""
    libraries = {"LD_LIBRARY_PATH": LIBRARIES, "NCCL_CUMEM_ENABLE": "1", "NCCL_CUMEM_HOST_ENABLE": "1"} if LIBRARIES else {}
    done = subprocess.run([BUILD / "bin/railwise", "device", "run", "--machine", machine, "--fabric", f"contact{os.getpid()}", "--sysfs", "on", "--",
                           sys.executable, script, "--out", out, *words], env={**os.environ, **libraries}, capture_output=True, text=True)
    folders = [folder for folder in pathlib.Path(out).glob("railwise-contact-*") if folder.is_dir()]
    if not folders:
        raise AssertionError(f"status {done.returncode}, no report: {done.stdout}{done.stderr}")
    return done.returncode, json.loads((folders[0] / "report.json").read_text()), folders[0]


def texts(report, kind):
    return [f"{finding['stage']}: {finding['text']}" for finding in report["findings"] if finding["kind"] == kind]


class FirstContact(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.work = pathlib.Path(work.name)

    def bundle(self):
        file = self.work / "bundle.tar.gz"
        subprocess.run([SOURCE / "scripts/first-contact", "--bundle", file, "--build", BUILD], check=True, capture_output=True)
        self.assertLess(file.stat().st_size, MOST_BYTES)
        with tarfile.open(file) as tar:
            tar.extractall(self.work)
        return self.work / "railwise-first-contact"

    @unittest.skipIf(LIBRARIES, "the other run does this")
    def test_the_bundle_alone_meets_a_machine(self):
        script = self.bundle() / "first-contact"
        status, report, folder = contact(script, self.work, "--anonymous", "--only", "system,vendors,doctor,model,software,loopback,torch,port",
                                         machine="@asymmetric")
        self.assertEqual(texts(report, "wrong") + texts(report, "surprise"), [])
        self.assertEqual(status, 0)
        good = "\n".join(texts(report, "ok"))
        self.assertIn("loopback: mlx5_0 to itself: every element right", good)
        self.assertIn("loopback: mlx5_0, mlx5_1, mlx5_2, mlx5_3 to itself: every element right", good)
        self.assertIn("loopback: puts and signals: every element right", good)
        self.assertIn("software: over the software device: every element right", good)
        self.assertIn("port: no --apply INTERFACE", texts(report, "skipped"))
        self.assertTrue((folder.with_suffix(".tar.gz")).exists())
        self.assertIn("Nothing.", (folder / "report.html").read_text())
        name = re.compile(rf"\b{re.escape(socket.gethostname())}\b")
        for file in folder.rglob("*.*"):
            if file.suffix in (".txt", ".json", ".html", ".xml"):
                self.assertIsNone(name.search(file.read_text()), file)

    @unittest.skipIf(LIBRARIES, "the other run does this")
    def test_what_contradicts_comes_first(self):
        """A command that answers otherwise for a recording than for the machine, and one that finds wrong data."""
        fake = self.work / "build"
        (fake / "bin").mkdir(parents=True)
        (fake / "lib").symlink_to(BUILD / "lib")
        (fake / "bin/railwise").write_text(f"""#!/bin/sh
case "$*" in
  "explain --json --root"*) {BUILD}/bin/railwise "$@" | sed 's/"name": "mlx5_0"/"name": "mlx5_9"/' ;;
  "perf all_reduce"*) {BUILD}/bin/railwise "$@" | sed 's/"wrong": 0/"wrong": 7/' ;;
  *) exec {BUILD}/bin/railwise "$@" ;;
esac
""")
        (fake / "bin/railwise").chmod(0o755)
        status, report, folder = contact(SOURCE / "scripts/first-contact", self.work, "--only", "model,software", "--build", fake)
        self.assertEqual(status, 1)
        self.assertEqual(len(texts(report, "surprise")), 1)
        self.assertIn("a recording of this machine has other NICs", texts(report, "surprise")[0])
        self.assertRegex(texts(report, "wrong")[0], r"over the software device: \d+ wrong elements")
        page = (folder / "report.html").read_text()
        self.assertLess(page.index("other NICs"), page.index("wrong elements"))

    @unittest.skipIf(LIBRARIES, "the other run does this")
    def test_a_nic_slower_than_its_peers(self):
        status, report, _ = contact(SOURCE / "scripts/first-contact", self.work, "--only", "loopback", "--build", BUILD,
                                    machine=MACHINE + ";fault device=mlx5_5 opcode=write delay=12ms")
        self.assertEqual(status, 1)
        self.assertRegex("\n".join(texts(report, "wrong")), r"loopback: mlx5_5 to itself: [\d.]+ GB/s, where the median of its peers is [\d.]+; 8 bytes take [1-9]\d{4,} us, there \d+ \(loop")

    @unittest.skipIf(LIBRARIES, "the other run does this")
    def test_a_stage_that_hangs_or_is_unknown(self):
        fake = self.work / "build"
        (fake / "bin").mkdir(parents=True)
        (fake / "lib").symlink_to(BUILD / "lib")
        (fake / "bin/railwise").write_text("#!/bin/sh\nexec sleep 1000\n")
        (fake / "bin/railwise").chmod(0o755)
        status, report, _ = contact(SOURCE / "scripts/first-contact", self.work, "--only", "software,model", "--build", fake, "--minutes", "0.05")
        self.assertEqual(status, 1)
        self.assertTrue(any("no end within" in text for text in texts(report, "wrong")), report)
        self.assertIn("software: the time was over", texts(report, "skipped"))
        done = subprocess.run([SOURCE / "scripts/first-contact", "--only", "nonsense"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no stage nonsense", done.stderr)

    @unittest.skipUnless(LIBRARIES, "without NCCL")
    def test_real_nccl(self):
        status, report, _ = contact(self.bundle() / "first-contact", self.work, "--only", "nccl,one_sided", "--largest", "1")
        self.assertEqual(texts(report, "wrong") + texts(report, "surprise"), [])
        self.assertEqual(status, 0)
        good = "\n".join(texts(report, "ok"))
        for job in ("software-2: 2 ranks", "software-4: 4 ranks", "nics-2: 2 ranks", "net-ib-2: 2 ranks", "one-sided: 2 ranks"):
            self.assertIn(job, good)


if __name__ == "__main__":
    unittest.main(verbosity=2)
