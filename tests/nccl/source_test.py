"""Where NCCL's sources come from, and the cache of its compiled host code, with small stand-ins for NCCL and CUDA. usage: source_test.py"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
import debian_source  # noqa: E402
import host_library  # noqa: E402
import rccl_source  # noqa: E402
from unavailable import Broken, Unavailable  # noqa: E402

DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_CODENAME=bookworm\nID=debian\n'
KEY = "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg"


class Mirrors(unittest.TestCase):
    def test_of_stanzas(self):
        stanzas = (f"Types: deb\n# a remark\nURIs: http://mirror.example/debian/\nSuites: bookworm bookworm-updates\nComponents: main\n{KEY}\n\n"
                   f"Types: deb\nURIs: http://security.example/debian-security\nSuites: bookworm-security\nComponents: main\n{KEY}\n")
        other = "Types: deb\nURIs: https://node.example\nSuites: bookworm\nComponents: main\nSigned-By: /usr/share/keyrings/node.gpg\n"
        off = "Enabled: no\nTypes: deb\nURIs: http://off.example/debian\nSuites: bookworm\nComponents: main\n"
        self.assertEqual(debian_source.mirrors(DEBIAN, [], [stanzas, other, off]), ["http://mirror.example/debian", debian_source.FALLBACK])

    def test_of_lines(self):
        lines = ("# deb http://remark.example/debian bookworm main\ndeb [arch=amd64] http://mirror.example/debian bookworm main contrib\n"
                 "deb [signed-by=/etc/keys/docker.asc] https://docker.example/linux/debian bookworm main\n"
                 "deb https://cloud.example/apt cloud-bookworm main\n")
        self.assertEqual(debian_source.mirrors(DEBIAN, [lines], []), ["http://mirror.example/debian", debian_source.FALLBACK])

    def test_of_another_distribution(self):
        self.assertEqual(debian_source.mirrors("ID=ubuntu\nVERSION_CODENAME=noble\n", ["deb http://ubuntu.example/ubuntu noble main\n"], []),
                         [debian_source.FALLBACK])


class Cache(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.write("cuda/include/cuda.h", "#define CUDA_VERSION 13010\n")
        self.write("cuda/include/cuda_runtime_api.h", "")
        self.write("cuda/include/crt/host_defines.h", "")
        self.write("nccl/makefiles/version.mk", "NCCL_MAJOR   := 2\nNCCL_MINOR   := 31\nNCCL_PATCH   := 4\nNCCL_SUFFIX  :=\n")
        self.write("nccl/src/nccl.h.in", "#define NCCL_MAJOR ${nccl:Major}\n#define NCCL_VERSION_CODE ${nccl:Version}\n")
        self.write("nccl/src/include/comm.h", '#include "nccl.h"\n')
        self.write("nccl/src/init.cc", '#include "comm.h"\n#ifndef NCCL_OS_LINUX\n#error\n#endif\nint version() { return NCCL_VERSION_CODE; }\n')
        self.write("nccl/src/device/kernel.cc", "#error\n")
        self.cache = self.folder / "cache"
        patch = unittest.mock.patch.dict(os.environ, {"CUDA_HOME": str(self.folder / "cuda")})
        patch.start()
        self.addCleanup(patch.stop)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def ensure(self):
        return host_library.ensure(self.folder / "nccl", self.cache, jobs=1)

    def left(self):
        return sorted(path.name for path in self.cache.glob("nccl-*/*"))

    def test_is_filled_once(self):
        host = self.ensure()
        self.assertEqual(host.release, "2.31.4")
        self.assertIn("NCCL_VERSION_CODE 23104", (host.folder / "include/nccl.h").read_text())
        symbols = subprocess.run(["nm", host.folder / "libnccl_host.a"], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertIn("_Z7versionv", symbols)
        with unittest.mock.patch.object(host_library, "_build", side_effect=AssertionError("built again")):
            self.assertEqual(self.ensure(), host)
        self.assertEqual(self.left(), [host.folder.name])

    def test_does_not_keep_what_does_not_compile(self):
        self.write("nccl/src/init.cc", "wrong\n")
        with self.assertRaisesRegex(Broken, r"NCCL 2.31.4 .* does not compile(.|\n)*error(.|\n)*nccl-2.31.4.log"):
            self.ensure()
        self.assertEqual(self.left(), [])
        self.write("nccl/src/init.cc", "")
        self.ensure()
        self.assertEqual(list(self.cache.glob("*.log")), [])

    def test_removes_what_a_killed_process_has_left(self):
        self.write(f"cache/nccl-2.31.4/host{host_library.UNFINISHED}/build/x", "")
        host = self.ensure()
        self.assertEqual(self.left(), [host.folder.name])

    def test_two_at_once_share_one_build(self):
        command = [sys.executable, str(HERE.parents[1] / "scripts/nccl-source"), "--source", str(self.folder / "nccl"), "--cache", str(self.cache)]
        both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        said = [process.communicate(timeout=300) for process in both]
        self.assertEqual([process.returncode for process in both], [0, 0], said)
        self.assertEqual(said[0][0], said[1][0])
        self.assertEqual(sum("compiling" in errors for _, errors in said), 1)

    def test_fetches_plugins_that_an_older_cache_lacks(self):
        shutil.copytree(self.folder / "nccl", self.cache / "nccl-2.31.4/source")
        host = host_library.ensure(cache=self.cache, jobs=1)

        def fetch(into):
            (into / "plugins/profiler").mkdir(parents=True)
            return "2.31.4"

        with unittest.mock.patch.object(debian_source, "fetch", side_effect=fetch) as fetched:
            for _ in range(2):
                self.assertEqual(host_library.plugins(host), host.source / "plugins")
        self.assertTrue((host.source / "plugins/profiler").is_dir())
        fetched.assert_called_once()

    def test_does_not_mix_releases_of_plugins(self):
        shutil.copytree(self.folder / "nccl", self.cache / "nccl-2.31.4/source")
        host = host_library.ensure(cache=self.cache, jobs=1)
        with unittest.mock.patch.object(debian_source, "fetch", return_value="2.32.1"), self.assertRaisesRegex(Unavailable, "2.32.1 now"):
            host_library.plugins(host)
        with self.assertRaisesRegex(Unavailable, "has no folder plugins"):
            host_library.plugins(self.ensure())

    def repository(self):
        """A git repository with the sources of this test as RCCL's."""
        folder = self.folder / "repository"
        shutil.copytree(self.folder / "nccl", folder / rccl_source.FOLDER)
        (folder / rccl_source.FOLDER / "src/rccl_wrap.cc").write_text("")
        git = ["git", "-C", str(folder), "-c", "user.name=test", "-c", "user.email=test@example.com"]
        for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "RCCL"]):
            subprocess.run([*git, *words], check=True)
        return folder

    def test_takes_rccl_out_of_a_repository_once(self):
        repository = self.repository()
        with unittest.mock.patch.multiple(rccl_source, COMMIT="HEAD", RECIPE=host_library.RECIPE):
            host = host_library.ensure(repository, self.cache, jobs=1)
            self.assertEqual((host.product, host.release, host.source), ("rccl", "2.31.4", self.cache / "rccl-2.31.4/source"))
            self.assertEqual(host_library.ensure(cache=self.cache, product="rccl"), host)

    def test_says_how_to_give_rccl(self):
        with self.assertRaisesRegex(Unavailable, "git clone .* scripts/nccl-source --source"):
            host_library.ensure(cache=self.cache, product="rccl")
        with self.assertRaisesRegex(Unavailable, f"does not have {rccl_source.FOLDER}/src of commit"):
            host_library.ensure(self.repository(), self.cache)
        self.assertEqual(list(self.cache.glob("rccl-*")), [])

    def test_says_what_is_missing(self):
        with unittest.mock.patch("cuda.folders", lambda: [self.folder]), self.assertRaisesRegex(Unavailable, "install nvidia-cuda-dev, or set CUDA_HOME"):
            self.ensure()
        with self.assertRaisesRegex(Unavailable, "does not hold NCCL's sources"):
            host_library.ensure(self.folder, self.cache)


if __name__ == "__main__":
    unittest.main()
