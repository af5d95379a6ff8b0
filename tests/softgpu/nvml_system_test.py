"""What libnvidia-ml.so.1 of the software GPU says of a GPU's PCIe link and board: what the software machine's /sys has of them.
Usage: nvml_system_test.py BUILD, or --ask LIBRARY BUS_ID, which prints a line of numbers on a machine
"""
import ctypes
import pathlib
import subprocess
import sys

BUS_ID = "0000:1b:00.0"  # on host A of machine dgx
WANTED = ["5", "5", "16", "0x233010de"]  # generation, the highest one, lanes, board below NVIDIA's vendor id


class PciInfo(ctypes.Structure):
    """nvmlPciInfo_t"""

    _fields_ = [("legacy", ctypes.c_char * 16), *[(name, ctypes.c_uint) for name in ("domain", "bus", "device", "part", "board")],
                ("bus_id", ctypes.c_char * 32)]


def ask(library, bus_id):
    nvml = ctypes.CDLL(library)
    device = ctypes.c_void_p()
    number = ctypes.c_uint()
    info = PciInfo()

    def call(name, *words):
        error = getattr(nvml, name)(*words)
        if error != 0:
            sys.exit(f"{name}: {error}")

    call("nvmlInit_v2")
    call("nvmlDeviceGetHandleByPciBusId_v2", bus_id.encode(), ctypes.byref(device))
    for name in ("nvmlDeviceGetCurrPcieLinkGeneration", "nvmlDeviceGetPcieLinkMaxSpeed", "nvmlDeviceGetCurrPcieLinkWidth"):
        call(name, device, ctypes.byref(number))
        print(number.value)
    call("nvmlDeviceGetPciInfo_v3", device, ctypes.byref(info))
    print(hex(info.board))


def main(build):
    library = build / "lib/softgpu/libnvidia-ml.so.1"
    if not library.exists():
        print("nvml: skipped: no software GPU: CMake found no headers of CUDA")
        return 77
    done = subprocess.run([build / "bin/railwise", "device", "run", "--machine", "dgx", "--host", "A", "--", sys.executable, __file__, "--ask",
                           library, BUS_ID], capture_output=True, text=True)
    print(done.stdout + done.stderr)
    if done.returncode == 0 and done.stdout.split() == WANTED:
        return 0
    print(f"FAIL wanted {' '.join(WANTED)}")
    return 1


if __name__ == "__main__":
    if sys.argv[1] == "--ask":
        ask(*sys.argv[2:])
    else:
        sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
