// The error statuses of completions (ibv_wc_status), which NCCL prints as numbers.
#include "doctor/log/judging/known_line.h"

namespace railwise::doctor {
namespace {

constexpr char kMemoryFix[] =
    "report it to the program's authors: a buffer was freed or registered anew while in use";

constexpr KnownStatus kStatuses[] = {
    {1, EventKind::kCause, "local length error",
     "A message is larger than the receive that was posted for it.",
     "compare the counts that the ranks call with"},
    {2, EventKind::kCause, "local queue pair operation error", "The NIC refuses a request of its own side.",
     "dmesg | grep -i mlx5"},
    {4, EventKind::kCause, "local protection error",
     "The NIC may not touch the memory that it was given: freed, or not registered; with GPUDirect often ACS "
     "or "
     "the IOMMU.",
     kMemoryFix},
    {5, EventKind::kConsequence, "work request flushed",
     "The queue pair was already broken: an earlier completion names the reason.",
     "look for the first completion with another status"},
    {9, EventKind::kCause, "remote invalid request",
     "The other NIC refuses the request: its receive is smaller, or its queue pair does not allow it.",
     "compare NCCL versions and plugins of the two nodes"},
    {10, EventKind::kCause, "remote access error",
     "The other NIC may not touch that memory: the peer freed it or died; with GPUDirect often ACS or the "
     "IOMMU.",
     "look at the peer's log\nexport NCCL_NET_GDR_LEVEL=LOC  # if it helps: turn off ACS and the IOMMU"},
    {11, EventKind::kCause, "remote operation error", "The other NIC failed with the request.",
     "look at the peer's log and dmesg"},
    {12, EventKind::kCause, "transport retry counter exceeded",
     "The peer's NIC does not answer: a cable, a switch or the peer's node is gone, or packets are dropped "
     "(on "
     "RoCE: PFC or ECN, the GID, the MTU).",
     "ibstat; mstlink -d <PCI address> -m  # package mstflint, or NVIDIA's mlxlink; on both nodes: symbol "
     "errors\n"
     "ib_write_bw -d <device> <peer>  # between the two nodes; on RoCE: ibv_devinfo -v, NCCL_IB_GID_INDEX, "
     "PFC on "
     "the switch\n"
     "export NCCL_IB_TIMEOUT=22  # only if the fabric is known to be slow for a moment\n"
     "export NCCL_NET_PLUGIN=railwise NCCL_NET=Railwise  # the job goes on over the other NICs"},
    {13, EventKind::kCause, "receiver-not-ready retry counter exceeded",
     "The peer posts no receives: its process is stopped, swapping or out of memory.",
     "look at the peer's node: top, dmesg"},
};

}  // namespace

const KnownStatus* knownStatus(int status) {
  for (const KnownStatus& known : kStatuses)
    if (known.status == status) return &known;
  return nullptr;
}

}  // namespace railwise::doctor
