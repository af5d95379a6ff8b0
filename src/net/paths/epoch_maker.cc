#include "net/paths/epoch_maker.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "net/paths/joiner.h"

namespace railwise::net {

Status EpochMaker::openWindow(bool registers) {
  Result<Window> made = state_.user.makeWindow(registers);
  if (!made.ok()) return made.status();
  state_.window = std::make_shared<Window>(std::move(*made));
  state_.here.window_address = state_.window->address();
  state_.proof.setReadTarget(*state_.window, state_.window->bytes() - ArrivalProof::kReadTargetBytes);
  return Status::success();
}

// A queue pair that fails flushes all its work requests, signalled or not.
Status EpochMaker::openQueuePairs(std::span<const uint8_t> rail_of) {
  QueuePairNeeds needs = state_.user.needs();
  std::vector<uint8_t> used;
  for (const uint8_t rail : rail_of) {
    if (rail == kNoRail) continue;
    const auto most = static_cast<uint32_t>(state_.endpoint.rails[rail].hca->attributes().max_qp_wr);
    needs.send_requests = std::min(needs.send_requests, most);
    used.push_back(rail);
  }
  if (const Status opened = state_.endpoint.openCompletionQueues(
          used, needs.send_requests + needs.receive_requests, 1, state_.window, state_.bell);
      !opened.ok()) {
    const auto& cqs = state_.endpoint.cq_of_rail;
    const auto rail = std::ranges::find(cqs, state_.endpoint.cqs.size()) - cqs.begin();
    return noteRefused(opened, static_cast<std::size_t>(rail), "a completion queue (ibv_create_cq)");
  }
  for (std::size_t i = 0; i < rail_of.size(); ++i) {
    if (rail_of[i] == kNoRail) {
      state_.endpoint.queue_pairs.add().rest->used = false;
      continue;
    }
    RAILWISE_TRY(addQueuePair(rail_of[i], needs));
    if (const int error = state_.user.postFirstReceives(i); error != 0)
      return noteRefused(state_.endpoint.refusedReceives(i, error), rail_of[i], "receives (ibv_post_recv)");
  }
  return Status::success();
}

Status EpochMaker::noteRefused(Status refusal, std::size_t rail, const char* what) {
  why_lost_ = std::string(state_.endpoint.rails[rail].hca->name()) + " refuses " + what + ": " +
              std::strerror(refusal.sys_errno);
  return refusal;
}

Status EpochMaker::addQueuePair(uint8_t rail, const QueuePairNeeds& needs) {
  const Rail& on = state_.endpoint.rails[rail];
  const Result<MemoryKeys> keys = windowKeysOn(state_.device, *state_.window, on);
  if (!keys.ok()) return noteRefused(keys.status(), rail, "memory (ibv_reg_mr)");
  // The first queue pair shows whether the device can take messages out of order. All further queue pairs
  // must then be able to.
  const bool first = state_.direction == Direction::kSend && state_.endpoint.queue_pairs.empty();
  const verbs::OutOfOrder order = !state_.out_of_order ? verbs::OutOfOrder::kNo
                                  : first              ? verbs::OutOfOrder::kIfPossible
                                                       : verbs::OutOfOrder::kRequired;
  const bool read = needs.peer_reads || !state_.rules.completion_means_arrival;
  const Result<LaneQueuePair*> made = state_.endpoint.addQueuePair(
      rail, state_.config, {needs.send_requests, needs.receive_requests, needs.inline_bytes}, order,
      read ? verbs::PeerMay::kReadAndWrite : verbs::PeerMay::kWrite, state_.bell);
  if (!made.ok()) return noteRefused(made.status(), rail, "a queue pair (ibv_create_qp, ibv_modify_qp)");
  if (first) state_.out_of_order = (*made)->rest->made.out_of_order;
  (*made)->window_key = keys->local;
  record::QueuePairRecord& counts = (*made)->counts();
  counts.used = 1;
  counts.number = (*made)->qp->qp_num;
  counts.rail = on.record_rail;
  counts.control_each = needs.control_each;
  state_.shown().queue_rail[state_.endpoint.cq_of_rail[rail]] = counts.rail;
  return Status::success();
}

void EpochMaker::adopt(const EndInfo& remote) {
  state_.peer = fieldText(remote.host) + " (";
  for (int i = 0; i < remote.rails; ++i) state_.peer += (i > 0 ? "+" : "") + fieldText(remote.rail[i].device);
  state_.peer += ")";
  state_.peer_window = remote.window_address;
  state_.there = remote;
  state_.endpoint.adopt(remote);
}

// The counts of the old queue pairs move to the totals of their rails before the queue pairs are destroyed.
void EpochMaker::takeRails(std::vector<Rail> rails) {
  record::foldQueuePairs(state_.memory.page());
  state_.endpoint = Endpoint(state_.memory.queuePairMemory(), std::move(rails), state_.device.rails());
}

Result<TrialQueuePair> EpochMaker::openTrial(const Rail& rail) const {
  Result<TrialQueuePair> made = makeTrial(rail);
  if (made.ok()) made->use(state_.window);
  return made;
}

Result<TrialQueuePair> EpochMaker::makeTrial(const Rail& rail) const {
  TrialQueuePair trial;
  trial.rail = rail;
  trial.remains = Remains::create(1);
  int error = 0;
  trial.cq.reset(verbs::makeOrExplain(
      [&] { return verbs::library().create_cq(rail.hca->context(), 2, nullptr, nullptr, 0); }, error));
  if (trial.cq == nullptr) return Status{Code::kSystem, error};
  Result<verbs::QueuePair> made =
      verbs::createQueuePair(rail.hca->pd(), trial.cq.get(), rail.port, state_.config, {1, 1, 0},
                             verbs::OutOfOrder::kNo, nullptr, verbs::PeerMay::kRead);
  if (!made.ok()) return made.status();
  trial.made = std::move(*made);
  return trial;
}

void EpochMaker::listenToRails(bool on) {
  const auto listen = [&](const Rail& rail) { on ? rail.tell(&state_.bell) : rail.forget(&state_.bell); };
  for (const Rail& rail : state_.endpoint.rails) listen(rail);
  for (const Rail& rail : state_.device.rails()) listen(rail);  // which may come back
}

void EpochMaker::drop() {
  listenToRails(false);
  state_.only_cq = state_.next_cq = nullptr;
  takeRails(state_.endpoint.rails);
  state_.endpoint.lose();
}

void EpochMaker::stopLost() noexcept {
  const auto usable = [](const Rail& rail) { return rail.usable(); };
  const bool well = state_.running() && state_.failure.ok() && !state_.joiner->isJoining(state_.endpoint) &&
                    std::ranges::all_of(state_.endpoint.rails, usable);
  if (well || state_.window == nullptr || state_.inForkedChild()) return;
  try {
    (void)state_.endpoint.stop();
  } catch (const std::bad_alloc&) {  // this thread destroys them
  }
}

// ---- the first epoch

bool EpochMaker::mayBeginLost() const { return state_.config.failover != 0; }

bool EpochMaker::mustBeginLost() const { return mayBeginLost() && !railsWork(state_.endpoint.rails); }

// ETIMEDOUT is that of a command to the device here.
bool EpochMaker::survives(Status refusal) const {
  const bool passes =
      refusal.code == Code::kSystem && (verbs::mayPass(refusal.sys_errno) || refusal.sys_errno == ETIMEDOUT);
  int native = 0;
  return mayBeginLost() && (passes || usableRails(state_.own(), &native).size() > 1);
}

std::string EpochMaker::whyLost() const {
  if (!why_lost_.empty()) return why_lost_;
  if (railsWork(state_.endpoint.rails))
    return anyReachable(state_.here) ? "the peer's device has no port that works"
                                     : "no port of its device has an address";
  const bool renewed = std::any_of(state_.endpoint.rails.begin(), state_.endpoint.rails.end(),
                                   [](const Rail& rail) { return !rail.now().same(rail); });
  return renewed ? "its device was opened anew after a failure" : "its device has no port that works";
}

void EpochMaker::beginWithoutQueuePairs(const EndInfo& local, const EndInfo& remote) {
  stopLost();
  drop();
  state_.here = local;
  adopt(remote);
}

}  // namespace railwise::net
