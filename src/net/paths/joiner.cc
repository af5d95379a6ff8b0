#include "net/paths/joiner.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/log.h"
#include "net/paths/join_by_manager.h"
#include "verbs/drivers/mlx5.h"
#include "verbs/queue_pair.h"

namespace railwise::net {

Result<bool> Joiner::joinAll(const Ends& ends, std::size_t* failed) {
  bool all = true;
  for (std::size_t i = 0; i < ends.endpoint.queue_pairs.size(); ++i) {
    const LaneQueuePair& queue_pair = ends.endpoint.queue_pairs[i];
    if (!queue_pair.rest->used || queue_pair.rest->connected) continue;
    *failed = i;
    const Result<bool> up = join(i, ends);
    if (!up.ok()) return up.status();
    all = all && *up;
  }
  return all;
}

Joiner::Path Joiner::pairingOf(std::size_t index, const Ends& ends) const {
  const LaneQueuePair& queue_pair = ends.endpoint.queue_pairs[index];
  if (direction_ == Direction::kSend) {
    const QueuePairInfo& pair = ends.remote.queue_pair[index];
    return {queue_pair.rail, queue_pair.peer_rail, pair.peer_gid, pair.gid};
  }
  const QueuePairInfo& pair = ends.local.queue_pair[index];
  return {queue_pair.rail, queue_pair.peer_rail, pair.gid, pair.peer_gid};
}

namespace {

// Where a port is a bond, the queue pairs of a rail leave by its network ports in turn.
void chooseLagPort(const LaneQueuePair& queue_pair, const Endpoint& endpoint) {
  const Rail& rail = endpoint.rails[queue_pair.rail];
  if (rail.port.lag_ports < 2) return;
  const auto earlier = std::ranges::count_if(
      std::span(endpoint.queue_pairs.begin(), queue_pair.index),
      [&](const LaneQueuePair& other) { return other.rest->used && other.rail == queue_pair.rail; });
  const auto port = static_cast<uint8_t>(1 + earlier % rail.port.lag_ports);
  const int error = verbs::setMlx5LagPort(queue_pair.qp, port);
  RAILWISE_INFO(log::kNet, "%s: port %u of the bond%s%s", endpoint.nameOf(queue_pair).c_str(), port,
                error != 0 ? " is not taken, the NIC chooses: " : "", error != 0 ? std::strerror(error) : "");
}

}  // namespace

void Joiner::noteConnected(std::size_t index, const Ends& ends, const char* how) const {
  chooseLagPort(ends.endpoint.queue_pairs[index], ends.endpoint);
  const Path path = pairingOf(index, ends);
  const RailInfo& here = ends.local.rail[path.local_rail];
  const RailInfo& there = ends.remote.rail[path.remote_rail];
  ibv_gid from;
  ibv_gid to;
  std::memcpy(from.raw, here.gids[path.local_gid], sizeof from.raw);
  std::memcpy(to.raw, there.gids[path.remote_gid], sizeof to.raw);
  RAILWISE_INFO(log::kNet, "%s (%s) %s %s of %s (%s), MTU %d%s",
                ends.endpoint.nameOf(ends.endpoint.queue_pairs[index]).c_str(), verbs::gidText(from).c_str(),
                direction_ == Direction::kSend ? "sends to" : "receives from",
                fieldText(there.device).c_str(), fieldText(ends.remote.host).c_str(),
                verbs::gidText(to).c_str(), 128 << std::min(here.mtu, there.mtu), how);
}

namespace {

// ECE vendor 0 means "no ECE".
std::optional<verbs::Ece> eceOf(const QueuePairInfo& info) {
  if (info.ece_vendor == 0) return std::nullopt;
  return verbs::Ece{info.ece_vendor, info.ece_options, info.ece_mask};
}

// Both ends know the address and number of each other's queue pairs from the side channel, and bring their
// own up.
class JoinByExchange final : public Joiner {
 public:
  JoinByExchange(Direction direction, const Config& config, const Session& session)
      : Joiner(direction, config, session) {}

  bool needsCall() const override { return false; }
  Result<verbs::GidList> addressesOf(const Rail& rail) const override { return rail.gids->get(); }
  Result<bool> join(std::size_t index, const Ends& ends) override;
  bool callTrial(TrialQueuePair& trial, const Ends& ends, const Path& path, uint64_t number) const override;
  Result<uint16_t> answerTrial(TrialQueuePair& trial, const Ends& ends, const Path& path,
                               uint64_t number) const override;

 private:
  // Brings a queue pair on `rail` to "ready to send". `index`: place of the peer's queue pair in
  // `ends.remote`. `from` receives the GID that the queue pair sends from.
  Status makeReady(ibv_qp* qp, const Rail& rail, const Ends& ends, const Path& path, std::size_t index,
                   verbs::Gid* from) const;
};

}  // namespace

Result<bool> JoinByExchange::join(std::size_t index, const Ends& ends) {
  LaneQueuePair& queue_pair = ends.endpoint.queue_pairs[index];
  verbs::Gid gid;
  RAILWISE_TRY(makeReady(queue_pair.qp, ends.endpoint.rails[queue_pair.rail], ends, pairingOf(index, ends),
                         index, &gid));
  queue_pair.rest->connected = true;
  if (ends.local.rail[queue_pair.rail].link_layer != LinkLayer::kInfiniBand) queue_pair.rest->gid = gid;
  noteConnected(index, ends, "");
  return true;
}

Status JoinByExchange::makeReady(ibv_qp* qp, const Rail& rail, const Ends& ends, const Path& path,
                                 std::size_t index, verbs::Gid* from) const {
  const RailInfo& here = ends.local.rail[path.local_rail];
  const RailInfo& there = ends.remote.rail[path.remote_rail];
  verbs::PathAddress address;
  address.qp_number = ends.remote.queue_pair[index].number;
  address.lid = there.lid;
  address.ethernet = there.link_layer != LinkLayer::kInfiniBand;
  address.mtu = static_cast<ibv_mtu>(there.mtu);
  std::memcpy(address.gid.raw, there.gids[path.remote_gid], sizeof address.gid.raw);
  from->index = here.gid_index[path.local_gid];
  from->roce_version = here.gid_versions[path.local_gid];
  std::memcpy(from->value.raw, here.gids[path.local_gid], sizeof from->value.raw);
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
  settings.psn = session_.firstPacket(ends.epoch, address.qp_number ^ qp->qp_num);
  const uint8_t reads = readsBetween(here, there);
  settings.reads = reads;
  verbs::Port port = rail.port;
  port.mtu = static_cast<ibv_mtu>(here.mtu);  // as the peer was told: both ends take the smaller of the two
  RAILWISE_TRY(verbs::readyToReceive(qp, port, address, settings));
  return verbs::readyToSend(qp, rail.port, config_, settings.psn, reads);
}

bool JoinByExchange::callTrial(TrialQueuePair& trial, const Ends& ends, const Path& path,
                               uint64_t /*number*/) const {
  verbs::Gid from;
  return makeReady(trial.qp(), trial.rail, ends, path, 0, &from).ok();
}

Result<uint16_t> JoinByExchange::answerTrial(TrialQueuePair& trial, const Ends& ends, const Path& path,
                                             uint64_t /*number*/) const {
  verbs::Gid from;
  RAILWISE_TRY(makeReady(trial.qp(), trial.rail, ends, path, 0, &from));
  return uint16_t{0};
}

std::unique_ptr<Joiner> makeJoiner(Direction direction, const Device& device, const Config& config,
                                   const Session& session, bool by_manager) {
  if (!by_manager) return std::make_unique<JoinByExchange>(direction, config, session);
  return std::make_unique<JoinByManager>(direction, config, session, device.rails().front().port.iwarp);
}

bool wantsConnectionManager(const Device& device, const Config& config) {
  return device.rails().front().port.iwarp || config.connect == "cm";
}

}  // namespace railwise::net
