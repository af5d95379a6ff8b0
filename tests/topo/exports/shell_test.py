"""Shells source what `railwise topo export` writes for env and ucx, and UCX reads the value.

Usage: shell_test.py RAILWISE MACHINES
"""

import shutil
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
from export_runs import RANKS, expect, export, run  # noqa: E402

SLOW_NIC = """<pci busid="0000:f1:00.0" class="0x020000" link_speed="8.0 GT/s PCIe" link_width="8">
<nic><net name="mlx5_9" dev="4" speed="25000" port="1" latency="0.000000" guid="0xa009" maxconn="131072" gdr="1"/></nic>
</pci>
"""
SHELLS = [["sh"], ["dash"], ["bash"], ["bash", "--posix"], ["busybox", "sh"], ["zsh"], ["ksh"]]


def check_ucx(shell: list[str], script: Path) -> None:
    def value(**variables: str) -> str:
        done = run([*shell, "-u", "-e", "-c", f'. {script} && printf %s "$UCX_NET_DEVICES"'], **variables)
        expect((done.returncode, done.stderr), (0, ""), f"{shell} {variables}")
        return done.stdout

    for variable in RANKS:
        expect(value(**{variable: "3"}), "mlx5_1:1", f"{shell} {variable}")
    expect(value(LOCAL_RANK="7", SLURM_LOCALID="0"), "mlx5_3:1", f"{shell} which variable counts")
    expect(value(), "mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1", f"{shell} without a launcher")
    for command in ([*shell, str(script)], [*shell, "-c", f". {script}"]):
        done = run(command, LOCAL_RANK="8")
        expect((done.returncode, done.stderr), (1, "railwise: local rank 8 has no GPU here: there are 8\n"), str(command))


def check_env(shell: list[str], script: Path) -> None:
    done = run([*shell, "-u", "-e", "-c", f'. {script} && printf "%s|" "$NCCL_NET_PLUGIN" "$NCCL_TOPO_FILE" "$NCCL_IB_HCA"'])
    wanted = "railwise|/tmp/it's a $HOME file.xml|=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1|"
    expect((done.stdout, done.stderr), (wanted, ""), f"{shell} env")


def check_ucx_itself(script: Path) -> bool:
    """Does UCX's own parser read the value as it was meant?"""
    if shutil.which("ucx_info") is None:
        print("ucx_info is not installed (apt: ucx-utils): UCX's parser was not asked")
        return False
    done = run(["sh", "-c", f". {script} && exec ucx_info -c"])
    lines = [line for line in done.stdout.splitlines() if line.startswith("UCX_NET_DEVICES=")]
    expect(lines, ["UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1"], "ucx_info -c")
    return True


def main(railwise: str, machines: Path) -> None:
    machine = machines / "synthetic" / "dgx1v.xml"
    with tempfile.TemporaryDirectory() as folder:
        ucx, env = Path(folder) / "ucx.sh", Path(folder) / "env.sh"
        ucx.write_text(export(railwise, machine, "ucx"))
        with_slow_nic = Path(folder) / "slow.xml"
        before, after = machine.read_text().rsplit("</cpu>", 1)
        with_slow_nic.write_text(before + SLOW_NIC + "</cpu>" + after)
        env.write_text(export(railwise, with_slow_nic, "env", "--topo-file", "/tmp/it's a $HOME file.xml"))
        shells = [shell for shell in SHELLS if shutil.which(shell[0])]
        for shell in shells:
            check_ucx(shell, ucx)
            check_env(shell, env)
        asked = check_ucx_itself(ucx)
    print(f"{len(shells)} shells agree: {', '.join(' '.join(shell) for shell in shells)}" + (", and UCX" if asked else ""))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
