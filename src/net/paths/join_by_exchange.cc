#include "net/paths/join_by_exchange.h"

#include <cstring>
#include <optional>

#include "verbs/path.h"
#include "verbs/queue_pair.h"

namespace railwise::net {
namespace {

// ECE vendor 0 means "no ECE".
std::optional<verbs::Ece> eceOf(const QueuePairInfo& info) {
  if (info.ece_vendor == 0) return std::nullopt;
  return verbs::Ece{info.ece_vendor, info.ece_options, info.ece_mask};
}

}  // namespace

Result<bool> JoinByExchange::join(std::size_t index, const Ends& ends) {
  LaneQueuePair& queue_pair = ends.endpoint.queue_pairs[index];
  verbs::Gid gid;
  RAILWISE_TRY(makeReady(queue_pair.qp, ends.endpoint.rails[queue_pair.rail], ends, pairingOf(index, ends),
                         index, &gid));
  queue_pair.rest->connected = true;
  if (ends.local.rail[queue_pair.rail].link_layer != LinkLayer::kInfiniBand) queue_pair.rest->gid = gid;
  logConnected(index, ends, "");
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

}  // namespace railwise::net
