"""The table of softgpu/functions.md against what NCCL looks up and what the software GPU has (functions.py).
Usage: functions_test.py BUILD [HOST]     HOST: another release of NCCL than BUILD is prepared for (scripts/nccl-source prints the folder)
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import functions  # noqa: E402
import host_library  # noqa: E402
import software_nccl  # noqa: E402
from unavailable import exit_status  # noqa: E402


def words(text):
    return set(re.findall(r"\bcu\w+", text))


def main():
    nccl = software_nccl.prepared(pathlib.Path(sys.argv[1]))
    host = host_library.read(pathlib.Path(sys.argv[2])) if len(sys.argv) > 2 else host_library.ensure()
    release = tuple(int(number) for number in host.release.split(".")[:2])
    listed = functions.table(functions.TABLE.read_text())
    wanted = functions.looked_up(host)
    source = "\n".join(file.read_text(errors="replace") for ending in ("cc", "cpp", "h") for file in (host.source / "src").rglob(f"*.{ending}"))
    headers = "\n".join((host.cuda_include / name).read_text(errors="replace") for name in ("cuda.h", "cuda_runtime_api.h"))
    complaints = functions.against_nccl(listed, wanted, release, words(source).__contains__)
    complaints += functions.against_libraries(listed, functions.Libraries(nccl.softgpu).state, functions.partly(), words(headers).__contains__)
    for complaint in complaints:
        print(f"FAIL {complaint}")
    counts = ", ".join(f"{len(names)} of {library}" for library, names in wanted.items())
    print(f"NCCL {host.release} looks up {counts}")
    if not all(wanted[library] for library in ("CUDA driver", "CUDA runtime", "NVML", "GDRCopy")):
        print("FAIL a list of NCCL's is empty: its sources are written otherwise now")
        return 1
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(exit_status("nccl functions", main))
