"""The machines that Railwise brings."""
import pathlib

from case import Case, HiddenTree, hosts_of, pair
from hosts_job import HostsJob

MACHINES = pathlib.Path(__file__).resolve().parents[3] / "machines"


def cases(nccl, build, out, rules):
    """Each machine with GPUDirect, where Railwise answers for the machine; and without, where it answers for NCCL's dump. So it does for a machine
    that describes no GPU: the software GPU invents one."""
    found = []
    # Of several GPUs in a process, NCCL (up to 2.30.7) describes the NICs that it merges only to the first as merged: the others see the merged
    # ones beside. One process for each GPU sees what there is.
    apart = {"dual-port"}
    for file in sorted(MACHINES.glob("*.conf")):
        hosts = pair(hosts_of(build, file))
        for direct in ("peermem", "off"):
            from_dump = direct == "off" or not hosts[0][1]
            name = file.stem + ("" if direct != "off" else " without GPUDirect")
            job = HostsJob(nccl, build, out / name.replace(" ", "-"), file, [(host, gpus or 1) for host, gpus in hosts],
                           file.stem in apart, [f"gpudirect={direct}"],
                           {"NCCL_NET_MERGE_LEVEL": "LOC"} if from_dump else {})
            found.append(Case(name, job, rules, from_dump))
    vm = MACHINES / "cloud-vm.conf"
    name = "cloud-vm restored"
    job = HostsJob(nccl, build, out / "cloud-vm-auto", vm, pair(hosts_of(build, vm)), settings=["gpudirect=peermem"],
                   extra={"RAILWISE_TOPOLOGY": "auto"})
    found.append(HiddenTree(name, job, rules))
    return found
