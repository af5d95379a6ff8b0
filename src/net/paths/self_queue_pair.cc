#include "net/paths/self_queue_pair.h"

#include <cerrno>
#include <cstring>
#include <span>

#include "base/log.h"
#include "base/secrets.h"

namespace railwise::net {

// Who forges packets on the network must guess it.
static uint32_t randomPacketNumber() {
  uint32_t number = 0;
  fillRandom(std::as_writable_bytes(std::span(&number, 1)));
  return number & 0xffffff;
}

Result<SelfQueuePair> SelfQueuePair::open(const Rail& rail, const Config& config, uint32_t depth,
                                          uint32_t inline_bytes, verbs::PeerMay may, const char* purpose) {
  SelfQueuePair made{rail};
  int error = 0;
  made.cq.reset(verbs::makeOrExplain(
      [&] {
        return verbs::library().create_cq(rail.hca->context(), static_cast<int>(depth + 1), nullptr, nullptr,
                                          0);
      },
      error));
  if (made.cq == nullptr) {
    RAILWISE_WARN("%s: no completion queue for %s: %s", rail.name, purpose, std::strerror(error));
    return Status{Code::kSystem, error};
  }
  Result<verbs::QueuePair> queue_pair =
      verbs::createQueuePair(rail.hca->pd(), made.cq.get(), rail.port, config, {depth, 1, inline_bytes},
                             verbs::OutOfOrder::kNo, &rail.hca->inlineLimits(), may);
  if (!queue_pair.ok()) return queue_pair.status();
  const Result<verbs::GidList> gids = rail.gids->get();
  if (!gids.ok()) return gids.status();
  if (gids->size() == 0) return Status{Code::kSystem, EADDRNOTAVAIL};
  const verbs::Gid& gid = (*gids)[0];
  const verbs::Port now = rail.hca->state().port(rail.port.number).value_or(rail.port);
  const verbs::PathAddress self{queue_pair->qp->qp_num, now.lid, rail.port.ethernet, now.mtu, gid.value};
  verbs::PathSettings settings{gid, 0, 0};
  settings.psn = randomPacketNumber();
  RAILWISE_TRY(verbs::readyToReceive(queue_pair->qp.get(), rail.port, self, settings));
  RAILWISE_TRY(verbs::readyToSend(queue_pair->qp.get(), rail.port, config, settings.psn));
  made.inline_bytes = queue_pair->inline_bytes;
  made.qp = std::move(queue_pair->qp);
  return made;
}

void SelfQueuePair::drop(const std::shared_ptr<const void>& memory,
                         void (*destroy)(Hca& hca,
                                         const std::shared_ptr<Remains>& remains) noexcept) noexcept {
  remains->queue_pairs.push_back(std::move(qp));
  remains->cqs.push_back(std::move(cq));
  remains->memory = memory;
  destroy(*rail.hca, remains);
}

}  // namespace railwise::net
