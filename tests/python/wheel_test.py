"""The wheel: its tag, its bytes, and its use in a fresh virtual environment; the plugin in it as NCCL would find it."""
import base64
import csv
import ctypes
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from conftest import LIMIT_S, MACHINES, make_wheel

import railwise


def run(*words, **variables):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=LIMIT_S, env={**os.environ, **variables})
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.skipif(shutil.which("objdump") is None, reason="no objdump here (package binutils)")
def test_the_tag_is_that_of_the_symbols(wheel, site):
    oldest = int(re.search(r"-py3-none-manylinux_2_(\d+)_(x86_64|aarch64)\.whl$", wheel.name)[1])
    needed = [int(minor) for library in (site / "railwise/lib").rglob("*.so*")
              for minor in re.findall(r"\(GLIBC_2\.(\d+)", run("objdump", "-T", library))]
    assert needed and max(needed) <= oldest
    assert oldest <= int(os.confstr("CS_GNU_LIBC_VERSION").split(".")[1])


def test_the_same_build_gives_the_same_bytes(wheel, build, tmp_path):
    assert make_wheel(build, tmp_path).read_bytes() == wheel.read_bytes()


def test_record_names_every_file(wheel):
    archive = zipfile.ZipFile(wheel)
    record = next(name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
    rows = {name: (digest, size) for name, digest, size in csv.reader(io.StringIO(archive.read(record).decode()))}
    assert set(rows) == set(archive.namelist())
    for name, (digest, size) in rows.items():
        if name != record:
            data = archive.read(name)
            assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert int(size) == len(data)
    assert "railwise/py.typed" in rows
    assert {name for name in rows if name.startswith("railwise/lib/")} == {
        "railwise/lib/libnccl-net-railwise.so", "railwise/lib/librailwise-topology.so.0",  # no plain libnccl-net.so
        "railwise/lib/railwise-verbs/librailwise-device.so"}


def test_a_fresh_environment_installs_and_uses_it(wheel, tmp_path, request):
    made = subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], capture_output=True, text=True, timeout=LIMIT_S)
    if made.returncode != 0:
        pytest.skip(f"no virtual environment can be made here (package python3-venv): {made.stdout.strip()[:200]}")
    python = tmp_path / "venv/bin/python"
    run(python, "-m", "pip", "--disable-pip-version-check", "install", "--no-index", wheel)
    script = tmp_path / "use.py"
    script.write_text("import sys, railwise\n"
                      "machine = railwise.topology.load(sys.argv[1])\n"
                      "print(machine.nic_of(3).name, machine.path(0, 1).type, machine.pick(2).gpus[0].rank)\n")
    file = MACHINES / "synthetic/dgx1v.xml"
    assert run(python, script, file).split() == ["mlx5_1", "NVL", "0"]
    assert "railwise 0." in run(python, "-m", "railwise", "version")
    # NCCL, here in the role of `railwise perf`, finds the plugin by the exports.
    exports = run(python, "-m", "railwise", "env")
    cli = request.config.getoption("--cli")
    said = run("sh", "-c", f'{exports}\nexec "{cli}" perf all_reduce --plugin "$NCCL_NET_PLUGIN" --device software --ranks 2 -b 64K -e 64K -n 2')
    installed = run(python, "-c", "import railwise; print(railwise.plugin_path())").strip()
    assert installed.startswith(str(tmp_path)) and f"# plugin {installed} (Railwise, " in said
    run(python, "-m", "pip", "--disable-pip-version-check", "uninstall", "--yes", "railwise")
    assert not list((tmp_path / "venv").rglob("*railwise*"))


@pytest.mark.parametrize("name", [f"python3.{minor}" for minor in range(8, 15)])
def test_other_pythons_use_it(name, site):
    other = shutil.which(name)
    if other is None or subprocess.run([other, "--version"], capture_output=True).returncode != 0:
        pytest.skip(f"no {name} here")
    script = ("import sys, railwise.topology as t; m = t.load(sys.argv[1]); "
              "print(m.nic_of(3).name, len(m.paths), m.pick(2).gpus[0].rank, [gpu.rank for gpu in m.visible_gpus({})][-1])")
    assert run(other, "-c", script, MACHINES / "synthetic/dgx1v.xml", PYTHONPATH=str(site)).split() == ["mlx5_1", "88", "0", "7"]


def test_exports_are_for_a_shell(python, site):
    library = str(site / "railwise/lib")
    shown = 'printf "%s\\n" "$NCCL_NET_PLUGIN" "$LD_LIBRARY_PATH"'
    exports = python("-m", "railwise", "env").stdout
    assert run("sh", "-ec", f"{exports}{shown}", LD_LIBRARY_PATH="/a b:/c").splitlines() == ["railwise", f"{library}:/a b:/c"]
    assert run("sh", "-euc", f"unset LD_LIBRARY_PATH\n{exports}{shown}").splitlines() == ["railwise", library]
    path = python("-m", "railwise", "env", "--path").stdout
    assert run("sh", "-ec", f"{path}{shown}", LD_LIBRARY_PATH="").splitlines() == [f"{library}/libnccl-net-railwise.so", ""]
    assert json.loads(python("-m", "railwise", "env", "--json", LD_LIBRARY_PATH="/c").stdout) == {
        "NCCL_NET_PLUGIN": "railwise", "LD_LIBRARY_PATH": f"{library}:/c"}


def test_plugin_path_and_environment(site):
    assert railwise.plugin_path() == str(site / "railwise/lib/libnccl-net-railwise.so")
    own = str(site / "railwise/lib")
    assert railwise.environment({})["LD_LIBRARY_PATH"] == own
    assert railwise.environment({"LD_LIBRARY_PATH": f"/x:{own}:"})["LD_LIBRARY_PATH"] == f"{own}:/x"


def test_use_plugin_makes_dlopen_find_it(python):
    """NCCL opens libnccl-net-railwise.so by its name, in a process that began without LD_LIBRARY_PATH."""
    script = ("import ctypes, os, railwise\n"
              "print(railwise.use_plugin(), os.environ['NCCL_NET_PLUGIN'])\n"
              "library = ctypes.CDLL('libnccl-net-railwise.so')\n"
              "print(ctypes.c_void_p.in_dll(library, 'ncclNetPlugin_v8').value is not None)\n")
    done = python("-c", script, LD_LIBRARY_PATH="")
    assert done.stdout.split() == ["railwise", "railwise", "True"], done.stderr
    with pytest.raises(OSError):
        ctypes.CDLL("libnccl-net-railwise.so")  # nothing has loaded it here


def test_a_plugin_that_the_user_has_named_stays_chosen(python):
    script = "import os, railwise; print(railwise.use_plugin(), os.environ.get('LD_LIBRARY_PATH', ''))"
    assert python("-c", script, NCCL_NET_PLUGIN="none", LD_LIBRARY_PATH="").stdout.split() == ["none"]


def test_nic_prints_what_a_script_needs(python):
    file = ("--file", MACHINES / "synthetic/dgx1v.xml", "--quiet")
    assert python("-m", "railwise", "nic", "3", *file).stdout == "mlx5_1\n"
    assert python("-m", "railwise", "nic", "0000:07:00.0", "--ucx", *file).stdout == "mlx5_0:1\n"
    assert python("-m", "railwise", "nic", *file).stdout.splitlines()[3] == "3 mlx5_1"
    wrong = python("-m", "railwise", "nic", "9", *file)
    assert (wrong.returncode, wrong.stderr) == (1, "railwise nic: dgx1v.xml: there is no GPU 9; the ranks are 0 to 7\n")
    assert python("-m", "railwise", "nic", "--bad").returncode == 2


def test_a_source_tree_says_that_it_is_no_package(tmp_path):
    done = subprocess.run([sys.executable, "-m", "railwise", "env"], capture_output=True, text=True, timeout=LIMIT_S,
                          env={**os.environ, "PYTHONPATH": str(MACHINES.parents[2] / "python")})
    assert done.returncode == 1 and "scripts/wheel" in done.stderr
