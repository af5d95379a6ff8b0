#include "net/paths/endpoint.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/few_lines.h"
#include "base/log.h"
#include "net/wireup/handshake.h"
#include "net/wireup/side_channel.h"

namespace railwise::net {

int placeOf(const Rail& rail, const std::vector<Rail>& rails) {
  const auto found =
      std::find_if(rails.begin(), rails.end(), [&](const Rail& each) { return each.same(rail); });
  return found != rails.end() ? static_cast<int>(found - rails.begin()) : -1;
}

int placeOfKeys(const Rail& rail, const std::vector<Rail>& own) {
  const auto found =
      std::find_if(own.begin(), own.end(), [&](const Rail& each) { return each.sharesKeysWith(rail); });
  return found != own.end() ? static_cast<int>(found - own.begin()) : -1;
}

Endpoint::Endpoint(void* memory, std::vector<Rail> used, const std::vector<Rail>& own)
    : queue_pairs(memory), rails(std::move(used)) {
  native = rails.size() == own.size();
  for (std::size_t i = 0; i < rails.size(); ++i) {
    native_rail[i] = static_cast<int8_t>(placeOfKeys(rails[i], own));
    native = native && native_rail[i] == static_cast<int8_t>(i);
  }
}

Status Endpoint::openCompletionQueues(std::span<const uint8_t> rail_of, uint32_t per_queue_pair,
                                      uint32_t more, const std::shared_ptr<const void>& memory,
                                      verbs::FatalFlag& lost) {
  std::vector<Hca*> hcas;
  for (std::size_t rail = 0; rail < rails.size(); ++rail) {
    Hca* const hca = rails[rail].hca;
    const auto found = std::find(hcas.begin(), hcas.end(), hca);
    cq_of_rail[rail] = static_cast<uint8_t>(found - hcas.begin());
    if (found == hcas.end()) hcas.push_back(hca);
  }
  for (std::size_t i = 0; i < hcas.size(); ++i) {
    const auto users = static_cast<uint32_t>(
        std::count_if(rail_of.begin(), rail_of.end(), [&](uint8_t rail) { return cq_of_rail[rail] == i; }));
    const auto entries = static_cast<int>(users * per_queue_pair + more);
    int error = 0;
    verbs::Cq cq(verbs::makeOrExplain(
        [&] { return verbs::library().create_cq(hcas[i]->context(), entries, &lost, nullptr, 0); }, error));
    if (cq == nullptr) {
      static FewLines lines;
      lines.warn(std::string(hcas[i]->name()) + ": a completion queue of " + std::to_string(entries) +
                 " entries cannot be made: " + std::strerror(error));
      return {Code::kSystem, error};
    }
    cqs.push_back(std::move(cq));
    parts_.push_back({hcas[i], Remains::create(users), nullptr});
    parts_.back().remains->memory = memory;
  }
  return Status::success();
}

Result<LaneQueuePair*> Endpoint::addQueuePair(uint8_t rail, const Config& config, verbs::QueuePairSize size,
                                              verbs::OutOfOrder order, verbs::PeerMay peer_may,
                                              verbs::FatalFlag& lost) {
  const Rail& local = rails[rail];
  Result<verbs::QueuePair> made = verbs::createQueuePair(local.hca->pd(), cqOf(rail), local.port, config,
                                                         size, order, &local.hca->inlineLimits(), peer_may);
  if (!made.ok()) return made.status();
  LaneQueuePair& queue_pair = queue_pairs.add();
  queue_pair.index = static_cast<uint8_t>(queue_pairs.size() - 1);
  queue_pair.rest->made = std::move(*made);
  queue_pair.qp = queue_pair.rest->made.qp.get();
  queue_pair.qp->qp_context = &lost;
  queue_pair.rail = rail;
  queue_pair.rail_bit = static_cast<uint8_t>(1U << rail);
  queue_pair.inline_bytes = queue_pair.rest->made.inline_bytes;
  queue_pair.setSendSize(size.send_requests);
  return &queue_pair;
}

void Endpoint::makeLanes(int count) {
  lanes.resize(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < queue_pairs.size(); ++i) {
    LaneQueuePair& queue_pair = queue_pairs[i];
    queue_pair.lane = static_cast<uint8_t>(i % lanes.size());
    if (!queue_pair.rest->used) continue;
    Lane& lane = lanes[queue_pair.lane];
    lane.queue_pairs[lane.count++] = static_cast<uint8_t>(i);
  }
}

void Endpoint::dropUnusedLanes() {
  std::erase_if(lanes, [&](const Lane& lane) { return !queue_pairs[lane.queue_pairs[0]].rest->used; });
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    for (int q = 0; q < lanes[i].count; ++q)
      queue_pairs[lanes[i].queue_pairs[q]].lane = static_cast<uint8_t>(i);
  }
}

Endpoint::~Endpoint() {
  for (Part& part : parts_) giveAway(part);
}

bool Endpoint::stop() {
  for (Part& part : parts_) {
    if (part.fence != nullptr) continue;
    std::vector<ibv_qp*> used;
    for (const LaneQueuePair& queue_pair : queue_pairs) {
      if (uses(queue_pair, *part.hca)) used.push_back(queue_pair.qp);
    }
    part.fence = part.remains->fence = Fence::begin(*part.hca, std::move(used));
  }
  return std::ranges::all_of(parts_, [](const Part& part) { return part.fence->proven(); });
}

bool Endpoint::driversAnswer() const {
  return std::ranges::all_of(parts_, [](const Part& part) { return part.hca->answers(); });
}

std::string Endpoint::refusal() const {
  for (const Part& part : parts_) {
    if (std::string text = part.fence != nullptr ? part.fence->refusal() : ""; !text.empty()) return text;
  }
  return "";
}

bool Endpoint::refusedFor(Clock::duration patience) const {
  return std::ranges::any_of(parts_, [&](const Part& part) {
    const auto since = part.fence != nullptr ? part.fence->refusedSince() : std::nullopt;
    return since && Clock::now() - *since > patience;
  });
}

void Endpoint::destroyRefused() {
  for (Part& part : parts_) {
    if (part.fence != nullptr && part.fence->refusedSince()) giveAway(part);
  }
}

// Hands everything on the part's device over to what destroys it.
void Endpoint::giveAway(Part& part) {
  if (part.remains == nullptr) return;
  const std::shared_ptr<Remains> remains = std::move(part.remains);
  for (LaneQueuePair& queue_pair : queue_pairs) {
    if (!uses(queue_pair, *part.hca)) continue;
    queue_pair.qp = nullptr;
    if (queue_pair.rest->cm != nullptr) {
      remains->managed.push_back(std::move(queue_pair.rest->cm));
    } else {
      remains->queue_pairs.push_back(std::move(queue_pair.rest->made.qp));
    }
  }
  std::vector<verbs::Cq>& all = cqs.empty() ? hidden_cqs : cqs;
  remains->cqs.push_back(std::move(all[static_cast<std::size_t>(&part - parts_.data())]));
  part.fence != nullptr ? destroyLater(*part.hca, remains) : destroyNow(*part.hca, remains);
}

bool Endpoint::proven() const {
  return std::any_of(queue_pairs.begin(), queue_pairs.end(), [](const LaneQueuePair& queue_pair) {
    return queue_pair.completed() > 0 || queue_pair.consumed > 0;
  });
}

bool Endpoint::owedNothing() const {
  return std::all_of(queue_pairs.begin(), queue_pairs.end(), [](const LaneQueuePair& queue_pair) {
    return queue_pair.posted() == queue_pair.completed();
  });
}

bool Endpoint::anyUsed() const {
  return std::any_of(queue_pairs.begin(), queue_pairs.end(),
                     [](const LaneQueuePair& queue_pair) { return queue_pair.rest->used; });
}

const LaneQueuePair* Endpoint::onRail(std::size_t rail) const {
  const auto found = std::find_if(
      queue_pairs.begin(), queue_pairs.end(),
      [&](const LaneQueuePair& queue_pair) { return queue_pair.rest->used && queue_pair.rail == rail; });
  return found != queue_pairs.end() ? &*found : nullptr;
}

std::string Endpoint::nameOf(const LaneQueuePair& queue_pair) const {
  const Rail& rail = rails[queue_pair.rail];
  return std::string(rail.hca->name()) + " port " + std::to_string(rail.port.number) + " qp " +
         std::to_string(queue_pair.qp != nullptr ? queue_pair.qp->qp_num : queue_pair.counts().number);
}

std::string Endpoint::pathText(const LaneQueuePair& queue_pair, const EndInfo& peer,
                               Direction direction) const {
  if (queue_pair.rail >= rails.size() || queue_pair.peer_rail >= peer.rails) return nameOf(queue_pair);
  const RailInfo& there = peer.rail[queue_pair.peer_rail];
  const Rail& here = rails[queue_pair.rail];
  return std::string(here.hca->name()) + " port " + std::to_string(here.port.number) +
         (direction == Direction::kSend ? " -> " : " <- ") + fieldText(there.device) + " port " +
         std::to_string(there.port);
}

Status Endpoint::refusedReceives(std::size_t queue_pair, int error) const {
  const int reason = verbs::reasonOfPost(error);
  RAILWISE_WARN("%s: ibv_post_recv failed: %s", nameOf(queue_pairs[queue_pair]).c_str(),
                std::strerror(reason));
  return {Code::kSystem, reason};
}

void Endpoint::adopt(const EndInfo& peer) {
  for (LaneQueuePair& queue_pair : queue_pairs) {
    const RailInfo& there = peer.rail[queue_pair.peer_rail];
    queue_pair.peer_window_key = there.window_key;
    queue_pair.rest->max_request_bytes =
        std::min(rails[queue_pair.rail].port.max_message_bytes, there.max_request_bytes) &
        ~(kCutAlignment - 1);
  }
}

}  // namespace railwise::net
