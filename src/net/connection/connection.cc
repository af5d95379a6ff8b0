#include "net/connection/connection.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "net/device/patience.h"
#include "net/wireup/resumer.h"
#include "verbs/path.h"

namespace railwise::net {
namespace {

// Distance between the first packet numbers of two queue pairs. Multiples of this number are far from each
// other (2^24 by the golden ratio).
constexpr uint64_t kPsnStep = 10368889;

// ECE vendor 0 means "no ECE".
void setEce(QueuePairInfo& info, const std::optional<verbs::Ece>& ece) {
  if (!ece) return;
  info.ece_vendor = ece->vendor;
  info.ece_options = ece->options;
  info.ece_mask = ece->comp_mask;
}

std::optional<verbs::Ece> eceOf(const QueuePairInfo& info) {
  if (info.ece_vendor == 0) return std::nullopt;
  return verbs::Ece{info.ece_vendor, info.ece_options, info.ece_mask};
}

// For the connection manager a rail has addresses instead of GIDs: those of its network interface.
Result<verbs::GidList> managerAddresses(const Rail& rail, const Config& config) {
  Result<std::vector<SocketAddress>> addresses = verbs::cmAddresses(rail.hca->context(), rail.port);
  if (!addresses.ok()) return addresses.status();
  std::vector<verbs::Gid> found;
  for (const SocketAddress& address : *addresses) found.push_back({.value = verbs::cmAddressBytes(address)});
  if (found.empty()) return verbs::GidList{};
  return verbs::usableAddresses(found, rail.hca->name(), rail.port, config);
}

}  // namespace

Connection::Connection(Direction direction, const Device& device, const ConnectionOptions& options)
    : device_(device),
      options_(options),
      config_(options_.config),
      rules_(device.rails().front().port.iwarp ? kIwarpRules : kRdmaRules),
      direction_(direction),
      endpoint_(queuePairMemory(), device.rails(), device.rails()) {
  numbers().next = numbers().posted = 1;
  record::openConnection(shown(),
                         direction == Direction::kSend ? record::Side::kSender : record::Side::kReceiver,
                         record::ConnectionState::kConnecting);
}

void* Connection::operator new(std::size_t bytes) {
  void* const memory = record::PageMemory::allocate(QueuePairs::kBytes + bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<std::byte*>(memory) + QueuePairs::kBytes;
}

void Connection::operator delete(void* connection, std::size_t bytes) {
  record::PageMemory::free(static_cast<std::byte*>(connection) - QueuePairs::kBytes,
                           QueuePairs::kBytes + bytes);
}

Connection::~Connection() {
  listenToRails(false);
  (void)endSearch("is closed: another path is not needed any more");
  endSideChannel("");
  closeRecord();
  stopLostQueuePairs();
}

void Connection::attach(Socket socket, const Session& session, uint16_t resume_port) {
  session_ = session;
  const bool both = config_.failover != 0 && epoch_there_.failover != 0;
  const char* const direction = direction_ == Direction::kSend ? ": connection to " : ": connection from ";
  side_channel_.open(std::move(socket), options_.watcher, session.frameKeys(),
                     {.resumer = both ? options_.resumer : nullptr,
                      .id = session.id(),
                      .peer_port = resume_port,
                      .name = device_.name() + (direction + peer_)});
  listenToRails(true);
  skipSuspicions();
  bell_.ring();  // what happened before anybody listened
  allowTestByOnePoll();
  describeInRecord();
  if (!endpoint_.anyUsed()) (void)lose(nullptr, {Code::kSystem, ENETDOWN}, whyLost());
}

std::string Connection::whyLost() const {
  if (!why_lost_.empty()) return why_lost_;
  if (railsWork())
    return anyReachable(epoch_here_) ? "the peer's device has no port that works"
                                     : "no port of its device has an address";
  const bool renewed = std::any_of(endpoint_.rails.begin(), endpoint_.rails.end(),
                                   [](const Rail& rail) { return !rail.now().same(rail); });
  return renewed ? "its device was opened anew after a failure" : "its device has no port that works";
}

bool Connection::railsWork() const {
  const auto fails = [](const Rail& rail) { return rail.hca->state().fatal() || !rail.hca->answers(); };
  const auto active = [](const Rail& rail) { return rail.hca->state().active(rail.port.number); };
  return std::none_of(endpoint_.rails.begin(), endpoint_.rails.end(), fails) &&
         std::any_of(endpoint_.rails.begin(), endpoint_.rails.end(), active);
}

bool Connection::offersOutOfOrder(const Device& device, const Config& config) {
  return std::all_of(device.rails().begin(), device.rails().end(), [&](const Rail& rail) {
    return verbs::outOfOrderReceives(rail.hca->context(), config) >= kPostedReceives;
  });
}

Status Connection::addQueuePair(uint8_t rail, verbs::QueuePairSize size) {
  // The first queue pair shows whether the device can take messages out of order. All further queue pairs
  // must then be able to.
  const bool first = direction_ == Direction::kSend && endpoint_.queue_pairs.empty();
  const verbs::OutOfOrder order = !out_of_order_ ? verbs::OutOfOrder::kNo
                                  : first        ? verbs::OutOfOrder::kIfPossible
                                                 : verbs::OutOfOrder::kRequired;
  const Result<LaneQueuePair*> made = endpoint_.addQueuePair(rail, config_, size, order, bell_);
  if (!made.ok()) return made.status();
  if (first) out_of_order_ = (*made)->rest->made.out_of_order;
  (*made)->window_key = windowKeys(rail).local;
  record::QueuePairRecord& counts = (*made)->counts();
  counts.used = 1;
  counts.number = (*made)->qp->qp_num;
  counts.rail = endpoint_.rails[rail].record_rail;
  counts.control_each = direction_ == Direction::kReceive ? sizeof(ClearToSend) - kUnwrittenBytes : 0;
  shown().queue_rail[endpoint_.cq_of_rail[rail]] = counts.rail;
  return Status::success();
}

bool Connection::addGids(const verbs::GidList& gids, RailInfo& info) {
  for (const verbs::Gid& gid : gids) {
    std::memcpy(info.gids[info.gid_count], gid.value.raw, sizeof gid.value.raw);
    info.gid_versions[info.gid_count] = static_cast<uint8_t>(gid.roce_version);
    info.gid_index[info.gid_count++] = static_cast<uint8_t>(gid.index);
  }
  return !gids.empty();
}

RailInfo Connection::describeRail(const Rail& rail, int mbps) const {
  RailInfo info = {};
  const verbs::Port now = rail.hca->state().port(rail.port.number).value_or(rail.port);
  info.lid = now.lid;
  info.link_layer = rail.port.iwarp      ? LinkLayer::kIwarp
                    : rail.port.ethernet ? LinkLayer::kRoce
                                         : LinkLayer::kInfiniBand;
  info.mtu = static_cast<uint8_t>(now.mtu);
  info.port = rail.port.number;
  info.rail = static_cast<int16_t>(rail.rail);
  info.plane = static_cast<int16_t>(rail.plane);
  info.speed_mbps = static_cast<uint32_t>(std::max(mbps, 1));
  info.max_request_bytes = rail.port.max_message_bytes;
  copyText(info.device, rail.name);
  const ibv_device_attr& nic = rail.hca->attributes();
  info.nic_vendor = nic.vendor_id;
  info.nic_part = nic.vendor_part_id;
  copyText(info.nic_firmware, fieldText(nic.fw_ver));
  return info;
}

Status Connection::describeRails(EndInfo& end) const {
  bool any = false;
  Status failed;
  end.rails = static_cast<uint8_t>(endpoint_.rails.size());
  for (std::size_t i = 0; i < endpoint_.rails.size(); ++i) {
    const Rail& rail = endpoint_.rails[i];
    RailInfo& info = end.rail[i];
    info = describeRail(rail, options_.rail_mbps[i]);
    info.window_key = window_->remoteKey(i);
    // Nobody can reach a port that is down or has no address. The connection uses the other ports.
    if (!rail.usable()) {
      RAILWISE_INFO(log::kNet, "%s: port %u is down, or its driver does not answer: left out of a connection",
                    rail.name, rail.port.number);
      continue;
    }
    const Result<verbs::GidList> gids =
        end.connection_manager != 0 ? managerAddresses(rail, config_) : rail.gids->get();
    const bool has_any = gids.ok() && !gids->empty();
    if (!has_any && mayBeginLost() && rail.gids->wasUsable()) {
      RAILWISE_INFO(log::kNet, "%s: port %u has no address any more: left out of a connection", rail.name,
                    rail.port.number);
      continue;
    }
    if (!gids.ok()) {
      failed = gids.status();
      continue;
    }
    if (has_any) rail.gids->noteUsable();
    if (end.connection_manager != 0 && !has_any) {
      RAILWISE_WARN(
          "%s port %u: RDMA CM finds no address of it: give its network interface an IP address, in the "
          "network namespace of this process",
          rail.hca->name(), rail.port.number);
      failed = {Code::kInvalidUsage, 0};
    }
    any = addGids(*gids, info) || any;
  }
  if (any || (failed.ok() && mayBeginLost())) return Status::success();
  if (failed.ok()) RAILWISE_WARN("%s: every port is down: check the cables and `ibstat`", device_.name());
  return failed.ok() ? Status{Code::kSystem, ENETDOWN} : failed;
}

Result<verbs::GidList> Connection::addressesOf(const Rail& rail) const {
  return usesManager() ? managerAddresses(rail, config_) : rail.gids->get();
}

Status Connection::giveToManager(LaneQueuePair& queue_pair,
                                 Result<std::unique_ptr<verbs::CmConnection>> connecting) {
  if (connecting.ok()) queue_pair.rest->cm = std::move(*connecting);
  else queue_pair.qp = nullptr;
  return connecting.status();
}

Result<bool> Connection::advanceManager(std::size_t index, const EndInfo& local, const EndInfo& remote,
                                        std::size_t local_gid, std::size_t remote_gid) {
  LaneQueuePair& queue_pair = endpoint_.queue_pairs[index];
  const Result<bool> up = queue_pair.rest->cm->advance();
  if (!up.ok()) return up.status();
  queue_pair.rest->connected = *up;
  if (*up) logConnected(index, local, remote, local_gid, remote_gid);
  return *up;
}

Result<SocketAddress> Connection::managerAddress(const Rail& rail, const uint8_t* bytes) {
  Result<std::vector<SocketAddress>> addresses = verbs::cmAddresses(rail.hca->context(), rail.port);
  if (!addresses.ok()) return addresses.status();
  for (const SocketAddress& address : *addresses) {
    if (std::memcmp(verbs::cmAddressBytes(address).raw, bytes, sizeof(ibv_gid)) == 0) return address;
  }
  RAILWISE_WARN("%s: its address changed while a connection was made", rail.name);
  return Status{Code::kSystem, EADDRNOTAVAIL};
}

Status Connection::describe(bool manager, EndInfo& end) const {
  end = {};
  copyText(end.host, options_.local_host);
  const auto fabric_identity = verbs::library().fabric_identity;
  end.fabric = fabric_identity != nullptr ? fabric_identity(endpoint_.rails.front().hca->context()) : 0;
  end.window_address = window_->address();
  // The settings come first, then the communicator's traffic class (net_ib's rule). A service level has four
  // bits.
  const int communicator = std::max(options_.traffic_class, 0);
  end.service_level =
      static_cast<uint8_t>(config_.ib_service_level >= 0 ? config_.ib_service_level : communicator & 0xf);
  end.traffic_class =
      static_cast<uint8_t>(config_.ib_traffic_class >= 0 ? config_.ib_traffic_class : communicator);
  end.connection_manager = manager ? 1 : 0;
  end.failover = config_.failover != 0 ? 1 : 0;
  end.devices = static_cast<uint8_t>(std::min(options_.devices, 255));
  end.resume_port = options_.resumer != nullptr ? options_.resumer->port() : 0;
  copyText(end.version, RAILWISE_VERSION);
  copyText(end.gpu_driver, options_.gpu_driver);
  return describeRails(end);
}

void Connection::describeQueuePairs(EndInfo& end) const {
  const auto made = [](const LaneQueuePair& queue_pair) { return queue_pair.qp != nullptr; };
  end.queue_pairs = end.lanes = 0;
  if (std::none_of(endpoint_.queue_pairs.begin(), endpoint_.queue_pairs.end(), made) || !anyReachable(end))
    return;
  end.queue_pairs = static_cast<uint8_t>(endpoint_.queue_pairs.size());
  end.lanes = static_cast<uint8_t>(endpoint_.lanes.size());
  for (std::size_t i = 0; i < endpoint_.queue_pairs.size(); ++i) {
    QueuePairInfo& info = end.queue_pair[i];
    info.number = endpoint_.queue_pairs[i].qp->qp_num;
    info.rail = endpoint_.queue_pairs[i].rail;
  }
  describeEce(end);
}

bool Connection::wantsConnectionManager() const {
  return endpoint_.rails.front().port.iwarp || config_.connect == "cm";
}

void Connection::adopt(const EndInfo& remote) {
  peer_ = fieldText(remote.host) + " (";
  for (int i = 0; i < remote.rails; ++i) peer_ += (i > 0 ? "+" : "") + fieldText(remote.rail[i].device);
  peer_ += ")";
  peer_window_ = remote.window_address;
  epoch_there_ = remote;
  for (LaneQueuePair& queue_pair : endpoint_.queue_pairs) {
    const RailInfo& peer = remote.rail[queue_pair.peer_rail];
    queue_pair.peer_window_key = peer.window_key;
    queue_pair.rest->max_request_bytes =
        std::min(endpoint_.rails[queue_pair.rail].port.max_message_bytes, peer.max_request_bytes) &
        ~(kCutAlignment - 1);
  }
}

Status Connection::bringUp(std::size_t index, const EndInfo& local, const EndInfo& remote,
                           std::size_t local_gid, std::size_t remote_gid) {
  LaneQueuePair& queue_pair = endpoint_.queue_pairs[index];
  const PathEnds ends = {local, remote, queue_pair.rail, queue_pair.peer_rail, local_gid, remote_gid};
  verbs::Gid gid;
  const auto ask = [&](bool) {
    return makeReady(queue_pair.qp, endpoint_.rails[queue_pair.rail], ends, index, &gid);
  };
  RAILWISE_TRY(askPatiently(ask, [&] { return epoch() == 1 && railsWork(); }));
  queue_pair.rest->connected = true;
  if (local.rail[queue_pair.rail].link_layer != LinkLayer::kInfiniBand) queue_pair.rest->gid = gid;
  logConnected(index, local, remote, local_gid, remote_gid);
  return Status::success();
}

Status Connection::makeReady(ibv_qp* qp, const Rail& rail, const PathEnds& ends, std::size_t index,
                             verbs::Gid* from) const {
  const RailInfo& here = ends.local.rail[ends.local_rail];
  const RailInfo& there = ends.remote.rail[ends.remote_rail];
  verbs::PathAddress address;
  address.qp_number = ends.remote.queue_pair[index].number;
  address.lid = there.lid;
  address.ethernet = there.link_layer != LinkLayer::kInfiniBand;
  address.mtu = static_cast<ibv_mtu>(there.mtu);
  std::memcpy(address.gid.raw, there.gids[ends.remote_gid], sizeof address.gid.raw);
  from->index = here.gid_index[ends.local_gid];
  from->roce_version = here.gid_versions[ends.local_gid];
  std::memcpy(from->value.raw, here.gids[ends.local_gid], sizeof from->value.raw);
  // The sender's service level and traffic class hold for both directions. NCCL_IB_FIFO_TC sets another
  // traffic class for the clear-to-sends.
  const EndInfo& sender = direction_ == Direction::kSend ? ends.local : ends.remote;
  const uint8_t traffic_class =
      direction_ == Direction::kSend
          ? sender.traffic_class
          : verbs::clearToSendTrafficClass(rail.port, config_, sender.traffic_class);
  verbs::PathSettings settings{*from, sender.service_level, traffic_class};
  settings.flow_label = verbs::laneFlowLabel(address.qp_number ^ qp->qp_num, static_cast<uint32_t>(index));
  settings.ece = eceOf(ends.remote.queue_pair[index]);
  // A late packet must not reach a queue pair that has got the number of an earlier queue pair, from another
  // epoch or another connection. So each epoch and connection has packet numbers of its own.
  settings.psn = static_cast<uint32_t>(
      (epoch() * kPsnStep + (address.qp_number ^ qp->qp_num) * kPsnStep * 3) & 0xffffff);
  verbs::Port port = rail.port;
  port.mtu = static_cast<ibv_mtu>(here.mtu);  // as the peer was told: both ends take the smaller of the two
  RAILWISE_TRY(verbs::readyToReceive(qp, port, address, settings));
  return verbs::readyToSend(qp, rail.port, config_, settings.psn);
}

void Connection::logConnected(std::size_t index, const EndInfo& local, const EndInfo& remote,
                              std::size_t local_gid, std::size_t remote_gid) const {
  const LaneQueuePair& queue_pair = endpoint_.queue_pairs[index];
  const RailInfo& here = local.rail[queue_pair.rail];
  const RailInfo& there = remote.rail[queue_pair.peer_rail];
  ibv_gid from;
  ibv_gid to;
  std::memcpy(from.raw, here.gids[local_gid], sizeof from.raw);
  std::memcpy(to.raw, there.gids[remote_gid], sizeof to.raw);
  const bool send = direction_ == Direction::kSend;
  RAILWISE_INFO(log::kNet, "%s (%s) %s %s of %s (%s), MTU %d%s", nameOf(queue_pair).c_str(),
                verbs::gidText(from).c_str(), send ? "sends to" : "receives from",
                fieldText(there.device).c_str(), fieldText(remote.host).c_str(), verbs::gidText(to).c_str(),
                128 << std::min(here.mtu, there.mtu), queue_pair.rest->cm != nullptr ? ", by RDMA CM" : "");
}

void Connection::describeEce(EndInfo& end) const {
  for (std::size_t i = 0; i < endpoint_.queue_pairs.size(); ++i) {
    QueuePairInfo& info = end.queue_pair[i];
    info.ece_vendor = info.ece_options = info.ece_mask = 0;
    if (endpoint_.queue_pairs[i].rest->used)
      setEce(info, verbs::queryEce(endpoint_.queue_pairs[i].qp, config_));
  }
}

}  // namespace railwise::net
