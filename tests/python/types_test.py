"""The package and the examples are fully typed, and are Python 3.8."""
import ast
import subprocess
import sys

import pytest
from conftest import LIMIT_S, ROOT

FILES = sorted([*(ROOT / "python/railwise").glob("*.py"), *(ROOT / "examples/python").glob("*.py")])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_python_3_8_reads_it(file):
    ast.parse(file.read_text(), feature_version=(3, 8))


def test_mypy_finds_nothing(site, tmp_path):
    if subprocess.run([sys.executable, "-c", "import mypy"], capture_output=True).returncode != 0:
        pytest.skip("no mypy here (package mypy, or scripts/packages --long)")
    settings = tmp_path / "mypy.ini"
    settings.write_text("[mypy]\nstrict = True\npython_version = 3.8\n[mypy-torch.*,nixl.*]\nignore_missing_imports = True\nfollow_imports = skip\n")
    done = subprocess.run([sys.executable, "-m", "mypy", "--config-file", settings, "--cache-dir", tmp_path, site / "railwise",
                           *(file for file in FILES if file.parent.name == "python")], capture_output=True, text=True, timeout=LIMIT_S,
                          cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "MYPYPATH": str(site)})
    assert done.returncode == 0, done.stdout + done.stderr
