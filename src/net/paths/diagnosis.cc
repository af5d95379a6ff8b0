#include "net/paths/diagnosis.h"

#include <cstring>

#include "verbs/library.h"
#include "verbs/port.h"

namespace railwise::net {
namespace {

constexpr const char* kFailed = "its device has failed: look for a reset or removal in `dmesg`";
constexpr const char* kPortDown = "its port is down: check the cable, the switch port and `ibstat`";

std::string goneFrom(const verbs::Gid& gid) {
  return "its address " + verbs::gidText(gid.value) + " is gone from the port (GID index " +
         std::to_string(gid.index) + ")";
}

}  // namespace

std::string diagnoseByEvents(const Rail& rail, const LaneQueuePair& queue_pair) {
  if (rail.hca->state().fatal()) return kFailed;
  if (!rail.hca->state().active(rail.port.number)) return kPortDown;
  const std::optional<verbs::Gid>& gid = queue_pair.rest->gid;
  return !gid || rail.gids->holds(*gid) ? "" : goneFrom(*gid);
}

std::string diagnoseByDevice(const Rail& rail, const LaneQueuePair& queue_pair) {
  if (rail.hca->state().fatal()) return kFailed;
  const Result<verbs::Port> now = verbs::queryPort(rail.hca->context(), rail.port.number);
  if (!now.ok())
    return std::string("its device does not answer any more: ") + std::strerror(now.status().sys_errno);
  if (!now->active) return kPortDown;
  const std::optional<verbs::Gid>& gid = queue_pair.rest->gid;
  if (!gid) return "";
  ibv_gid there = {};
  const int error = verbs::library().query_gid(rail.hca->context(), rail.port.number, gid->index, &there);
  if (error == 0 && std::memcmp(there.raw, gid->value.raw, sizeof there.raw) == 0) return "";
  return goneFrom(*gid) + ": check who changed the addresses of its interface";
}

const char* adviceFor(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
      return "the peer died or cannot be reached: check its log, the link, and on RoCE NCCL_IB_GID_INDEX, "
             "MTU and PFC";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "the peer posts no receives: it is stopped or out of memory";
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_OP_ERR:
      return "the peer died with its memory in use (see its log), released the memory, or never registered "
             "it for this access";
    case IBV_WC_LOC_PROT_ERR:
      return "the local memory was released while in use";
    case IBV_WC_WR_FLUSH_ERR:
      return "the device gave the queue pair up without a reason: see dmesg, and the peer's log";
    default:
      return "see the device's own log (dmesg)";
  }
}

record::ErrorKind errorKindOf(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
      return record::ErrorKind::kRetryExceeded;
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return record::ErrorKind::kReceiverNotReady;
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
      return record::ErrorKind::kRemoteAccess;
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
      return record::ErrorKind::kLocal;
    case IBV_WC_WR_FLUSH_ERR:
      return record::ErrorKind::kFlushed;
    default:
      return record::ErrorKind::kOther;
  }
}

bool refusesMemory(ibv_wc_status status) {
  return status == IBV_WC_LOC_PROT_ERR || status == IBV_WC_LOC_LEN_ERR || status == IBV_WC_REM_ACCESS_ERR ||
         status == IBV_WC_REM_INV_REQ_ERR;
}

bool endsTcp(ibv_wc_status status) {
  return status == IBV_WC_WR_FLUSH_ERR || status == IBV_WC_LOC_QP_OP_ERR || status == IBV_WC_REM_OP_ERR ||
         status == IBV_WC_RETRY_EXC_ERR;
}

}  // namespace railwise::net
