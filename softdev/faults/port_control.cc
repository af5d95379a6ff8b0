#include "softdev/faults/port_control.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "softdev/config/config.h"
#include "softdev/fabric/events.h"
#include "softdev/queues/responder.h"

namespace railwise::softdev {
namespace {

// The number of the peer of a QP. 0 if the QP is not on the port, or not connected. Also grows the epoch of
// the QP.
uint32_t recheck(Fabric& fabric, QpRecord& qp, uint32_t port) {
  const ResponderGuard guard(fabric, qp);
  if (qp.port != port || qp.qp_num.load(std::memory_order_relaxed) == 0) return 0;
  ++qp.epoch;
  return qp.dest_qp_num;
}

// Makes both ends of every connection over the port verify the connection before their next transfer.
void recheckConnections(Fabric& fabric, uint32_t port) {
  Segment& segment = *fabric.segment;
  for (uint32_t i = kFirstQpIndex; i < segment.qps_marks.high_water; ++i) {
    if (segment.qps[i].owner.load(std::memory_order_acquire) == 0) continue;
    const uint32_t peer = qpIndexOf(recheck(fabric, segment.qps[i], port));
    if (peer < kFirstQpIndex || peer >= kMaxQps) continue;
    const ResponderGuard guard(fabric, segment.qps[peer]);
    ++segment.qps[peer].epoch;
  }
}

// Stores word by word, for readers that hold no lock.
void storeGid(uint8_t (&to)[16], const uint8_t (&from)[16]) {
  for (size_t i = 0; i < sizeof to; i += sizeof(uint32_t)) {
    uint32_t word;
    std::memcpy(&word, from + i, sizeof word);
    __atomic_store_n(reinterpret_cast<uint32_t*>(to + i), word, __ATOMIC_RELAXED);
  }
}

}  // namespace

void setPortState(Fabric& fabric, uint32_t port, bool up) {
  PortRecord& record = fabric.segment->ports[port];
  const uint32_t wanted = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  {
    SharedLockGuard guard(fabric.segment->tables, fabric.self);
    if (record.state.exchange(wanted, std::memory_order_seq_cst) == wanted) return;
  }
  recheckConnections(fabric, port);
  raisePortEvent(fabric, port, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
}

void setPortGid(Fabric& fabric, uint32_t port, uint32_t index, const uint8_t (&raw)[16], uint32_t type) {
  if (index >= kMaxGids) return;
  PortRecord& record = fabric.segment->ports[port];
  {
    SharedLockGuard guard(fabric.segment->tables, fabric.self);
    const uint32_t count = record.gid_count.load(std::memory_order_relaxed);
    const bool infiniband = record.link_layer == IBV_LINK_LAYER_INFINIBAND;
    const auto usual = static_cast<uint32_t>(infiniband ? GidType::kIb : GidType::kRoceV2);
    for (uint32_t i = count; i <= index; ++i) record.gids[i] = {{}, usual};
    if (type <= static_cast<uint32_t>(GidType::kRoceV2)) record.gids[index].type = type;
    storeGid(record.gids[index].raw, raw);
    record.gid_count.store(std::max(count, index + 1), std::memory_order_release);
  }
  recheckConnections(fabric, port);
  raisePortEvent(fabric, port, IBV_EVENT_GID_CHANGE);
}

void setPortSpeed(Fabric& fabric, uint32_t port, uint32_t mbps) {
  SharedLockGuard guard(fabric.segment->tables, fabric.self);
  fabric.segment->ports[port].speed_mbps.store(mbps, std::memory_order_release);
}

void failDevice(Fabric& fabric, const char* host, const char* device) {
  Segment& segment = *fabric.segment;
  std::vector<uint32_t> failed;
  for (uint32_t i = 0; i < segment.contexts_marks.high_water; ++i) {
    ContextRecord& context = segment.contexts[i];
    if (context.owner.load(std::memory_order_acquire) == 0 || context.port_count == 0) continue;
    const PortRecord& port = segment.ports[context.ports[0]];
    if (std::strcmp(port.host, host) != 0 || std::strcmp(port.device, device) != 0) continue;
    if (context.fatal.exchange(1, std::memory_order_seq_cst) == 0) failed.push_back(i);
  }
  for (uint32_t i = kFirstQpIndex; i < segment.qps_marks.high_water; ++i) {
    QpRecord& qp = segment.qps[i];
    if (qp.owner.load(std::memory_order_acquire) == 0) continue;
    const ResponderGuard guard(fabric, qp);
    const bool of_device = std::find(failed.begin(), failed.end(), qp.context) != failed.end();
    const bool live = qp.qp_num.load(std::memory_order_relaxed) != 0 &&
                      qp.state.load(std::memory_order_relaxed) != IBV_QPS_RESET;
    if (of_device && live) enterError(fabric, qp);
  }
  for (const uint32_t context : failed) raiseEvent(fabric, context, IBV_EVENT_DEVICE_FATAL, 0);
}

}  // namespace railwise::softdev
