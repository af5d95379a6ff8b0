#include "net/paths/joiner.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"

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

void Joiner::logConnected(std::size_t index, const Ends& ends, const char* how) const {
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

}  // namespace railwise::net
