#include "softdev/control/control.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "softdev/config/config.h"
#include "softdev/config/fault_names.h"
#include "softdev/fabric/count_sums.h"
#include "softdev/fabric/events.h"
#include "softdev/fabric/ports.h"
#include "softdev/faults/actions.h"
#include "softdev/faults/faults.h"

namespace railwise::softdev {
namespace {

std::string gidText(const Gid& gid) {
  constexpr const char* kTypes[] = {"/ib", "/v1", "/v2"};
  if (std::all_of(std::begin(gid.raw), std::end(gid.raw), [](uint8_t byte) { return byte == 0; })) return "";
  char address[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, gid.raw, address, sizeof address);
  return std::string(address) + (gid.type < std::size(kTypes) ? kTypes[gid.type] : "");
}

PortInfo describe(const Segment& segment, uint32_t index) {
  const PortRecord& port = segment.ports[index];
  PortInfo info;
  info.index = index;
  info.host = port.host;
  info.device = port.device;
  info.number = port.number;
  info.infiniband = port.link_layer == IBV_LINK_LAYER_INFINIBAND;
  info.active = port.state.load(std::memory_order_acquire) == IBV_PORT_ACTIVE;
  info.speed_mbps = port.speed_mbps.load(std::memory_order_relaxed);
  info.lid = info.infiniband ? lidOf(segment, port) : 0;
  const uint32_t gids = std::min(port.gid_count.load(std::memory_order_acquire), kMaxGids);
  for (uint32_t i = 0; i < gids; ++i) info.gids.push_back(gidText(port.gids[i]));
  return info;
}

bool byPlace(const PortInfo& a, const PortInfo& b) {
  return std::tie(a.host, a.device, a.number) < std::tie(b.host, b.device, b.number);
}

uint32_t pidOf(const Segment& segment, uint32_t owner) {
  return owner != 0 ? segment.processes[slotOf(owner)].pid.load(std::memory_order_acquire) : 0;
}

constexpr const char* kStates[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

// Collects rows, keyed by what a row stands for.
class Collector {
 public:
  Collector(const Segment& segment, CountsBy by) : segment_(segment), by_(by) {}

  // The row for an object on a context. `port` is an index into the context's ports.
  CountsRow& row(const ContextRecord& context, uint32_t process, uint32_t port, const QpRecord* qp) {
    const PortRecord& place = segment_.ports[context.ports[port]];
    const bool is_device = by_ == CountsBy::kDevice;
    const Key key{by_ == CountsBy::kProcess ? "" : place.host, by_ == CountsBy::kProcess ? "" : place.device,
                  by_ == CountsBy::kPort || qp != nullptr ? place.number : 0U,
                  is_device || by_ == CountsBy::kPort ? 0 : process,
                  qp != nullptr ? qp->qp_num.load(std::memory_order_relaxed) : 0};
    CountsRow& row = rows_[key];
    row.host = place.host;
    row.device = std::get<1>(key);
    row.port = std::get<2>(key);
    row.process = std::get<3>(key);
    row.qp = std::get<4>(key);
    return row;
  }

  std::vector<CountsRow> take() {
    std::vector<CountsRow> rows;
    for (auto& [key, row] : rows_) rows.push_back(std::move(row));
    return rows;
  }

 private:
  using Key = std::tuple<std::string, std::string, uint32_t, uint32_t, uint32_t>;

  const Segment& segment_;
  const CountsBy by_;
  std::map<Key, CountsRow> rows_;
};

// The position of the port with record `port` among the ports of the context. 0 if the context does not have
// it.
uint32_t positionOf(const ContextRecord& context, uint32_t port) {
  const uint32_t* end = context.ports + std::min(context.port_count, kMaxDevicePorts);
  const uint32_t* found = std::find(context.ports, end, port);
  return found != end ? static_cast<uint32_t>(found - context.ports) : 0;
}

void collectContexts(const Segment& segment, CountsBy by, Collector& collector) {
  for (uint32_t i = 0; i < segment.contexts_marks.high_water; ++i) {
    const ContextRecord& context = segment.contexts[i];
    const uint32_t process = pidOf(segment, context.owner.load(std::memory_order_acquire));
    if (process == 0) continue;
    for (uint32_t port = 0; port < std::min(context.port_count, kMaxDevicePorts); ++port)
      addTo(collector.row(context, process, port, nullptr).counts, context.retired_work[port]);
    if (by != CountsBy::kPort)
      addTo(collector.row(context, process, 0, nullptr).counts, context.retired_polls);
  }
}

void collectQueuePairs(const Segment& segment, CountsBy by, Collector& collector) {
  for (uint32_t i = kFirstQpIndex; i < segment.qps_marks.high_water; ++i) {
    const QpRecord& qp = segment.qps[i];
    const uint32_t process = pidOf(segment, qp.owner.load(std::memory_order_acquire));
    if (process == 0 || qp.qp_num.load(std::memory_order_acquire) == 0) continue;
    const ContextRecord& context = segment.contexts[qp.context];
    CountsRow& row =
        collector.row(context, process, positionOf(context, qp.port), by == CountsBy::kQp ? &qp : nullptr);
    addTo(row.counts, qp.counters);
    ++row.queue_pairs;
    if (by != CountsBy::kQp) continue;
    const uint32_t state = qp.state.load(std::memory_order_relaxed);
    row.state = state < std::size(kStates) ? kStates[state] : "?";
    row.peer_qp = qp.dest_qp_num;
  }
}

void collectQueues(const Segment& segment, Collector& collector) {
  for (uint32_t i = 1; i < segment.cqs_marks.high_water; ++i) {
    const CqRecord& cq = segment.cqs[i];
    const uint32_t process = pidOf(segment, cq.owner.load(std::memory_order_acquire));
    if (process == 0) continue;
    addTo(collector.row(segment.contexts[cq.context], process, 0, nullptr).counts, cq.counters);
  }
  for (uint32_t i = 1; i < segment.srqs_marks.high_water; ++i) {
    const SrqRecord& srq = segment.srqs[i];
    const uint32_t process = pidOf(segment, srq.owner.load(std::memory_order_acquire));
    if (process == 0) continue;
    addTo(collector.row(segment.contexts[srq.context], process, 0, nullptr).counts, srq);
  }
}

}  // namespace

std::vector<PortInfo> listPorts(Fabric& fabric) {
  const Segment& segment = *fabric.segment;
  SharedLockGuard guard(fabric.segment->tables, fabric.self);
  struct Users {
    uint32_t all = 0;
    uint32_t failed = 0;
  };
  std::map<uint32_t, Users> users;
  for (uint32_t i = 0; i < segment.contexts_marks.high_water; ++i) {
    const ContextRecord& context = segment.contexts[i];
    if (context.owner.load(std::memory_order_acquire) == 0) continue;
    for (uint32_t port = 0; port < std::min(context.port_count, kMaxDevicePorts); ++port) {
      Users& of_port = users[context.ports[port]];
      ++of_port.all;
      of_port.failed += context.fatal.load(std::memory_order_acquire) != 0 ? 1 : 0;
    }
  }
  std::vector<PortInfo> ports;
  for (const auto& [index, of_port] : users) {
    ports.push_back(describe(segment, index));
    ports.back().contexts = of_port.all;
    ports.back().failed_contexts = of_port.failed;
  }
  std::sort(ports.begin(), ports.end(), byPlace);
  return ports;
}

Outcome<std::vector<PortInfo>> findPorts(Fabric& fabric, const std::string& name) {
  const size_t slash = name.find('/');
  const size_t colon = name.find(':', slash == std::string::npos ? 0 : slash);
  const std::string host = slash == std::string::npos ? "" : name.substr(0, slash);
  const size_t start = slash == std::string::npos ? 0 : slash + 1;
  const std::string device = name.substr(start, colon == std::string::npos ? colon : colon - start);
  const std::string number = colon == std::string::npos ? "" : name.substr(colon + 1);
  std::vector<PortInfo> found;
  std::string known;
  std::string hosts;
  for (const PortInfo& port : listPorts(fabric)) {
    known += (known.empty() ? "" : ", ") + port.host + "/" + port.device + ":" + std::to_string(port.number);
    if (device.empty() || !matchesName(device, port.device) || !matchesName(host, port.host)) continue;
    if (hosts.find(port.host) == std::string::npos) hosts += (hosts.empty() ? "" : ", ") + port.host;
    if (number.empty() || number == std::to_string(port.number)) found.push_back(port);
  }
  if (found.empty())
    return Error{"no process has \"" + name + "\" open ([HOST/]DEVICE[:PORT]); open are " +
                 (known.empty() ? "none" : known)};
  if (host.empty() &&
      std::any_of(found.begin(), found.end(), [&](const auto& p) { return p.host != found[0].host; }))
    return Error{"\"" + name + "\" is on several hosts (" + hosts + "): say which, as " + found[0].host +
                 "/" + name + " (or */" + name + ")"};
  return found;
}

Outcome<void> changePort(Fabric& fabric, const PortInfo& port, const std::string& change) {
  std::string word = change;
  if (change == "up" || change == "down") word = "port=" + change;
  if (change == "fatal") word = "device_fatal";
  const auto parsed = parseFaultRule(word);
  if (!parsed.ok() && parsed.failure().code != Code::kInvalidUsage) return parsed.failure();
  const FaultRule rule = parsed.ok() ? *parsed : FaultRule{};
  const bool of_port = rule.action == FaultAction::kPortDown || rule.action == FaultAction::kPortUp ||
                       rule.action == FaultAction::kGid || rule.action == FaultAction::kSpeed ||
                       rule.action == FaultAction::kDeviceFatal ||
                       (rule.action == FaultAction::kEvent && eventOf(rule.code) == EventOf::kPort);
  if (!of_port)
    return Error{
        "\"" + change +
        "\": expected up, down, speed=MBPS, gid=INDEX=ADDRESS[/TYPE], fatal or event=NAME of a port"};
  (void)act({fabric, 0, port.index, nullptr, nullptr}, rule);
  FaultSite site;
  site.host = port.host.c_str();
  site.device = port.device.c_str();
  site.port = port.number;
  logCommand(fabric, site, faultActionText(rule));
  return {};
}

uint32_t otherProcesses(const Fabric& fabric) {
  uint32_t others = 0;
  for (uint32_t i = 0; i < kMaxProcesses; ++i) {
    const ProcessSlot& slot = fabric.segment->processes[i];
    const uint32_t pid = slot.pid.load(std::memory_order_acquire);
    // A process is there twice if it joins the fabric and has loaded the device's library, too.
    if (pid == 0 || pid == static_cast<uint32_t>(getpid())) continue;
    const uint32_t token = makeToken(i, slot.generation.load(std::memory_order_acquire));
    if (tokenAlive(fabric.self, token)) ++others;
  }
  return others;
}

std::vector<CountsRow> listCounts(Fabric& fabric, CountsBy by) {
  const Segment& segment = *fabric.segment;
  SharedLockGuard guard(fabric.segment->tables, fabric.self);
  Collector collector(segment, by);
  if (by != CountsBy::kQp) collectContexts(segment, by, collector);
  collectQueuePairs(segment, by, collector);
  if (by == CountsBy::kProcess || by == CountsBy::kDevice) collectQueues(segment, collector);
  return collector.take();
}

}  // namespace railwise::softdev
