"""What the tests of the Python package have in common: the package of a wheel, made once and unpacked."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MACHINES = ROOT / "tests/topo/machines"
LIMIT_S = 120


def pytest_addoption(parser):
    parser.addoption("--cli", type=pathlib.Path, required=True)
    parser.addoption("--build", type=pathlib.Path, required=True)


def make_wheel(build, folder):
    done = subprocess.run([sys.executable, ROOT / "scripts/wheel", "--build", build, "--output", folder], capture_output=True, text=True,
                          timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    return pathlib.Path(done.stdout.strip())


def pytest_configure(config):
    """The package must be there before the tests are imported."""
    folder = tempfile.TemporaryDirectory(prefix="railwise-python-")
    config.add_cleanup(folder.cleanup)
    config.railwise_wheel = make_wheel(config.getoption("--build"), folder.name)
    config.railwise_site = pathlib.Path(folder.name) / "site"
    zipfile.ZipFile(config.railwise_wheel).extractall(config.railwise_site)
    sys.path.insert(0, str(config.railwise_site))


@pytest.fixture
def wheel(request):
    return request.config.railwise_wheel


@pytest.fixture
def site(request):
    """The folder with the unpacked package."""
    return request.config.railwise_site


@pytest.fixture
def build(request):
    return request.config.getoption("--build")


class Command:
    """The `railwise` command."""

    def __init__(self, path):
        self.path = path

    def run(self, *words):
        return subprocess.run([self.path, *map(str, words)], capture_output=True, text=True, timeout=LIMIT_S)

    def __call__(self, *words):
        """The JSON that it prints."""
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def refusal(self, *words):
        done = self.run(*words)
        assert done.returncode == 1, done.stderr
        return done.stderr


@pytest.fixture
def cli(request):
    return Command(request.config.getoption("--cli"))


@pytest.fixture
def python(site):
    """Runs a Python that has the package, and returns what subprocess.run() does."""

    def run(*words, **variables):
        environment = {**os.environ, "PYTHONPATH": str(site), **variables}
        return subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, timeout=LIMIT_S, env=environment)

    return run


def machines():
    """Every machine of tests/topo/machines, and of the collection where it is: topology files and recorded trees."""
    files = [*MACHINES.glob("*.xml"), *MACHINES.glob("synthetic/*.xml"), *MACHINES.glob("recorded/*.tar.gz")]
    collection = pathlib.Path(os.environ.get("RAILWISE_TOPOLOGIES", ROOT.parent / "shared/topologies"))
    return sorted(map(str, [*files, *collection.glob("machines/*/*.xml"), *collection.glob("sysfs/*.tar.gz")]))
