#include "net/connection/connection.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "net/device/ask_patiently.h"
#include "net/wireup/resumer.h"
#include "verbs/path.h"

namespace railwise::net {
namespace {

std::optional<verbs::Ece> eceOf(const QueuePairInfo& info) {
  if (info.ece_vendor == 0) return std::nullopt;
  return verbs::Ece{info.ece_vendor, info.ece_options, info.ece_mask};
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
  if (railsWork(endpoint_.rails))
    return anyReachable(epoch_here_) ? "the peer's device has no port that works"
                                     : "no port of its device has an address";
  const bool renewed = std::any_of(endpoint_.rails.begin(), endpoint_.rails.end(),
                                   [](const Rail& rail) { return !rail.now().same(rail); });
  return renewed ? "its device was opened anew after a failure" : "its device has no port that works";
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
  (*made)->window_key = windowKeysOn(device_, *window_, endpoint_.rails[rail]).local;
  record::QueuePairRecord& counts = (*made)->counts();
  counts.used = 1;
  counts.number = (*made)->qp->qp_num;
  counts.rail = endpoint_.rails[rail].record_rail;
  counts.control_each = direction_ == Direction::kReceive ? sizeof(ClearToSend) - kUnwrittenBytes : 0;
  shown().queue_rail[endpoint_.cq_of_rail[rail]] = counts.rail;
  return Status::success();
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

bool Connection::wantsConnectionManager() const {
  return endpoint_.rails.front().port.iwarp || config_.connect == "cm";
}

void Connection::adopt(const EndInfo& remote) {
  peer_ = fieldText(remote.host) + " (";
  for (int i = 0; i < remote.rails; ++i) peer_ += (i > 0 ? "+" : "") + fieldText(remote.rail[i].device);
  peer_ += ")";
  peer_window_ = remote.window_address;
  epoch_there_ = remote;
  endpoint_.adopt(remote);
}

Status Connection::bringUp(std::size_t index, const EndInfo& local, const EndInfo& remote,
                           std::size_t local_gid, std::size_t remote_gid) {
  LaneQueuePair& queue_pair = endpoint_.queue_pairs[index];
  const PathEnds ends = {local, remote, queue_pair.rail, queue_pair.peer_rail, local_gid, remote_gid};
  verbs::Gid gid;
  const auto ask = [&](bool) {
    return makeReady(queue_pair.qp, endpoint_.rails[queue_pair.rail], ends, index, &gid);
  };
  RAILWISE_TRY(askPatiently(ask, [&] { return epoch() == 1 && railsWork(endpoint_.rails); }));
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
  settings.psn = session_.firstPacket(epoch(), address.qp_number ^ qp->qp_num);
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
  RAILWISE_INFO(log::kNet, "%s (%s) %s %s of %s (%s), MTU %d%s", endpoint_.nameOf(queue_pair).c_str(),
                verbs::gidText(from).c_str(), send ? "sends to" : "receives from",
                fieldText(there.device).c_str(), fieldText(remote.host).c_str(), verbs::gidText(to).c_str(),
                128 << std::min(here.mtu, there.mtu), queue_pair.rest->cm != nullptr ? ", by RDMA CM" : "");
}

}  // namespace railwise::net
