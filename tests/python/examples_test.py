"""examples/python: the part of each that is ours runs, without PyTorch, UCX and NIXL."""
import importlib.util
import subprocess
import sys

import pytest
from conftest import LIMIT_S, MACHINES, ROOT

EXAMPLES = ROOT / "examples/python"
DGX1V = str(MACHINES / "synthetic/dgx1v.xml")
METRICS = """# HELP railwise_rail_sent_bytes_total Bytes.
# TYPE railwise_rail_sent_bytes_total counter
railwise_rail_sent_bytes_total{pid="7",device="mlx5_0",port="1"} %d
railwise_rail_received_bytes_total{pid="7",device="mlx5_0",port="1"} 0
railwise_rail_errors_total{pid="7",device="mlx5_0",port="1",kind="port_down"} 1
railwise_rail_errors_total{pid="7",device="mlx5_0",port="1",kind="other"} 2
"""


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_torchrun_prepares_each_rank(python):
    done = python("-c", "import sys; sys.modules['torch'] = None; sys.argv = ['x']; import runpy; "
                  f"runpy.run_path({str(EXAMPLES / 'torchrun_plugin.py')!r}, run_name='__main__')", LOCAL_RANK="1", NCCL_TOPO_FILE=DGX1V)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("local rank 1: plugin railwise, NIC ")
    assert done.stdout.endswith("nothing is trained\n")


@pytest.mark.parametrize("variables, port", [
    ({"LOCAL_RANK": "3"}, "mlx5_1:1"),
    ({"SLURM_LOCALID": "7"}, "mlx5_3:1"),
    ({"LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": "6"}, "mlx5_3:1"),
    ({}, "mlx5_0:1"),
])
def test_each_rank_gets_its_nic(python, variables, port):
    done = python(EXAMPLES / "per_rank_nic.py", RAILWISE_EXAMPLE_TOPOLOGY=DGX1V, **variables)
    assert done.stdout == f"export UCX_NET_DEVICES={port}\n", done.stderr
    command = python(EXAMPLES / "per_rank_nic.py", "--", "sh", "-c", "echo $UCX_NET_DEVICES", RAILWISE_EXAMPLE_TOPOLOGY=DGX1V, **variables)
    assert command.stdout == f"{port}\n"


def test_an_error_of_the_library_is_one_line(python):
    blind = python(EXAMPLES / "per_rank_nic.py", RAILWISE_EXAMPLE_TOPOLOGY=DGX1V, CUDA_VISIBLE_DEVICES="")
    assert blind.returncode == 1 and "sees no GPU" in blind.stderr
    done = python(EXAMPLES / "per_rank_nic.py", RAILWISE_EXAMPLE_TOPOLOGY="/nowhere.xml")
    assert done.returncode == 1 and done.stderr.startswith("per_rank_nic: ") and done.stderr.count("\n") == 1


def test_rates_come_from_two_readings():
    reader = example("read_metrics")
    (rail, sent, received, errors), = reader.rows(METRICS % 1e9, METRICS % 3e9, 2)
    assert (rail.device, sent, received, errors) == ("mlx5_0", 1.0, 0.0, 3)
    assert list(reader.samples('a{b="x\\\\y\\"z\\n"} 1'))[0].labels == {"b": 'x\\y"z\n'}


def test_metrics_of_a_record_are_read(request):
    """What `railwise metrics` prints for a process that is there."""
    made = request.config.getoption("--build") / "tests/record/make_record"
    if not made.exists():
        pytest.skip("make_record is not built")
    import tempfile
    with tempfile.TemporaryDirectory(prefix="railwise-records-") as folder:
        process = subprocess.Popen([made, folder, "trouble"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            process.stdout.readline()
            printed = subprocess.run([request.config.getoption("--cli"), "metrics", "--dir", folder], capture_output=True, text=True,
                                     timeout=LIMIT_S)
            assert printed.returncode == 0, printed.stderr
            shown = subprocess.run([sys.executable, EXAMPLES / "read_metrics.py", "-"], input=printed.stdout, capture_output=True, text=True,
                                   timeout=LIMIT_S)
        finally:
            process.stdin.close()
            process.wait(LIMIT_S)
    assert "mlx5_0 port 1: " in shown.stdout and "mlx5_1 port 1: " in shown.stdout, shown.stderr
