// GPUDirect: does the memory of the GPUs go straight through the NICs, and why not.
#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/path_types.h"
#include "doctor/log/judging/judge.h"
#include "doctor/log/reading/line.h"

namespace railwise::doctor {
namespace {

constexpr char kPeerMemoryFix[] =
    "modprobe nvidia_peermem  # or a driver and kernel with dma-buf: the open kernel modules, Linux 5.12\n"
    "railwise devices  # shows what the NICs then offer";

constexpr char kAmdFix[] =
    "export NCCL_DMABUF_ENABLE=1  # RCCL takes no dma-bufs without; the kernel needs CONFIG_PCI_P2PDMA and "
    "CONFIG_DMABUF_MOVE_NOTIFY\n"
    "grep ib_register_peer_memory_client /proc/kallsyms  # else: RDMA drivers with it (MLNX_OFED's), then "
    "amdgpu\n"
    "railwise devices  # shows what the NICs then offer";

// What NCCL calls a distance, by its number in that release.
const char* distanceName(int distance, const std::string& version) {
  const int minor = version.starts_with("2.") ? std::atoi(version.c_str() + 2) : 99;
  std::vector<const char*> names;
#define RAILWISE_IN_RELEASE(value, name, since, meaning) \
  if (minor >= (since)) names.push_back(name);
  RAILWISE_PATH_TYPES(RAILWISE_IN_RELEASE)
#undef RAILWISE_IN_RELEASE
  // 2.27 had P2C behind PXN.
  if (minor == 27) std::swap(names[6], names[7]);
  return distance >= 0 && distance < static_cast<int>(names.size())
             ? names[static_cast<std::size_t>(distance)]
             : "?";
}

bool isOfNetwork(const Process& process, const std::string& nic) {
  return nic.starts_with(process.network + " ");
}

const Fact& firstDisabled(const Process& process) {
  for (const auto& [nic, gpu_direct] : process.gpu_direct)
    if (isOfNetwork(process, nic) && !gpu_direct.enabled) return gpu_direct.line;
  return process.nics_line;
}

std::string reasonOf(const Process& process) {
  if (!process.no_gpu_direct_reasons.empty()) {
    const std::string& said = process.no_gpu_direct_reasons.front().value;
    const std::string_view none = after(said, "GPUDirect: none, because ");
    return "The plugin says: " + std::string(none.data() != nullptr ? none : std::string_view(said)) + ".";
  }
  if (!process.dma_buf_not_asked.value.empty())
    return "AMD's driver has no peer memory with these RDMA drivers, and RCCL takes dma-bufs only with "
           "NCCL_DMABUF_ENABLE=1.";
  const std::string module = process.rocm ? "AMD's peer memory" : "a peer-memory module (nvidia_peermem)";
  return "Neither " + module + " is loaded nor does the NIC take dma-bufs" +
         std::string(process.dma_buf ? ", though the GPU offers them." : " of the GPU.");
}

void judgeNics(const Ranks& ranks, int index, const Process& process, Findings& findings) {
  const GpuDirectCount count = gpuDirectCount(process);
  if (count.all == count.enabled) return;
  const bool none = count.enabled == 0;
  findings.add(none ? "gdr-off" : "gdr-some", Severity::kWarning,
               none ? "GPUDirect RDMA is off: data take a detour through the host's memory"
                    : "GPUDirect RDMA is off for some NICs",
               {ranks.seenAt(index, firstDisabled(process))},
               reasonOf(process) + (none ? "" : " The slowest NIC sets the speed."),
               process.rocm ? kAmdFix : kPeerMemoryFix);
}

std::pair<uint64_t, uint64_t> networkConnections(const Process& process) {
  uint64_t all = 0, direct = 0;
  for (const auto& [way, connections] : process.connections) {
    if (!way.starts_with("NET/" + process.network)) continue;
    all += connections.number;
    direct += connections.gpu_direct;
  }
  return {all, direct};
}

// Finds NICs whose GPUDirect a process does not use, and GPUs that are too far from their NICs. `nobody`: no
// connection of the whole job uses GPUDirect. A single rank proves less: one that only sends uses none
// without GDR_READ.
void judgeDistance(const Ranks& ranks, int index, const Process& process, const std::string& version,
                   bool nobody, Findings& findings) {
  const auto [all, direct] = networkConnections(process);
  const bool unused = all > 0 && direct == 0;
  // Each GPU is far from most NICs and near to its own: where connections use GPUDirect, all is well. Without
  // GDR_READ only those that receive do.
  if (direct > 0 && 2 * direct >= all) return;
  // NCCL measures the distance only of a NIC and a GPU that can.
  const GpuDirectCount count = gpuDirectCount(process);
  if (process.far_pairs.empty() && count.all == 0 && nobody && all > 0) {
    findings.add(
        "gdr-unused", Severity::kWarning, "no connection of the job uses GPUDirect RDMA",
        {ranks.seenAt(index,
                      {std::to_string(all) + " connections, none with /GDRDMA", process.nics_line.place})},
        "The logs do not say whether the NICs can.",
        "export NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH  # NCCL's lines \"GPU Direct RDMA\" then say why\n" +
            std::string(process.rocm ? kAmdFix : kPeerMemoryFix));
    return;
  }
  if (process.far_pairs.empty() && (count.enabled == 0 || !unused)) return;
  if (process.far_pairs.empty()) {
    findings.add("gdr-unused", Severity::kWarning, "no connection uses GPUDirect RDMA, though the NICs can",
                 {ranks.seenAt(index, {std::to_string(all) + " connections, none with /GDRDMA",
                                       process.nics_line.place})},
                 "The logs do not say why; NCCL_NET_GDR_LEVEL or NCCL_NET_GDR_READ may forbid it.",
                 "export NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH  # names the distances\nrailwise explain");
    return;
  }
  const FarPair& far = process.far_pairs.front();
  findings.add("gdr-far", unused ? Severity::kWarning : Severity::kAdvice,
               unused ? "no connection uses GPUDirect RDMA: the GPUs are too far from the NICs"
                      : "some GPUs are too far from some NICs for GPUDirect RDMA",
               {ranks.seenAt(index, far.line)},
               std::string("Their distance is ") + distanceName(far.distance, version) + ", and " +
                   distanceName(far.allowed, version) + " is the most that is allowed.",
               "railwise explain  # which NIC is near which GPU\n"
               "railwise topo generate > topo.xml; export NCCL_TOPO_FILE=$PWD/topo.xml  # a VM that "
               "hides its PCIe tree\n"
               "export NCCL_NET_GDR_LEVEL=PHB  # only where the CPU forwards well: measure it");
}

}  // namespace

GpuDirectCount gpuDirectCount(const Process& process) {
  GpuDirectCount count;
  for (const auto& [nic, gpu_direct] : process.gpu_direct) {
    if (!isOfNetwork(process, nic)) continue;
    ++count.all;
    count.enabled += gpu_direct.enabled ? 1 : 0;
  }
  return count;
}

void judgeGpuDirect(const Job& job, const Ranks& ranks, Findings& findings) {
  const bool nobody = std::ranges::all_of(
      job.processes, [](const Process& process) { return networkConnections(process).second == 0; });
  for (const auto& [index, process] : ranks.members()) {
    if (!usesRdma(process)) continue;
    judgeNics(ranks, index, process, findings);
    judgeDistance(ranks, index, process,
                  process.version.value.empty() ? job.version.value : process.version.value, nobody,
                  findings);
  }
}

}  // namespace railwise::doctor
