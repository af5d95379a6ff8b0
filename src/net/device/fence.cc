#include "net/device/fence.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#include "base/log.h"
#include "verbs/library.h"

namespace railwise::net {
namespace {

std::atomic<int> g_managed{0};        // connections of RDMA CM that are being destroyed
std::atomic<Clock::rep> g_latest{0};  // when the latest of them was handed over

// Moves the queue pair to the error state. 0: it is there, or it was in RESET. Otherwise the driver's errno.
int stop(ibv_qp* queue_pair) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_ERR;
  const int error = verbs::library().modify_qp(queue_pair, &attributes, IBV_QP_STATE);
  if (error == 0) return 0;
  const int reason = verbs::reasonOfPost(error);
  ibv_qp_attr now = {};
  ibv_qp_init_attr init = {};
  const bool known = verbs::library().query_qp(queue_pair, &now, IBV_QP_STATE, &init) == 0;
  if (known && (now.qp_state == IBV_QPS_ERR || now.qp_state == IBV_QPS_RESET)) return 0;
  return reason;
}

// The objects are the parent's.
void leaveToParent(Remains& remains) {
  for (auto& each : remains.managed) (void)each.release();
  for (auto& each : remains.queue_pairs) (void)each.release();
  for (auto& each : remains.cqs) (void)each.release();
  (void)new (std::nothrow) std::vector<verbs::CmListener>(std::move(remains.listeners));
}

// Needs no memory, and is never destroyed.
void keepForEver(Hca& hca, std::shared_ptr<Remains> remains) {
  static std::mutex mutex;
  static std::shared_ptr<Remains>& kept = *new std::shared_ptr<Remains>;
  hca.noteQueuePairStays();
  const std::lock_guard lock(mutex);
  remains->next = std::move(kept);
  kept = std::move(remains);
}

void tryToDestroy(Hca& hca, const std::shared_ptr<Remains>& remains, Clock::duration pause) {
  if (remains->destroy(hca)) return;
  const Clock::duration longer = std::min(2 * pause, Patience::kLongestDestroyPause);
  bool taken = false;
  try {
    taken =
        hca.destructions().runAfter(pause, [&hca, remains, longer] { tryToDestroy(hca, remains, longer); });
  } catch (const std::bad_alloc&) {  // no memory for the job
  }
  if (!taken) keepForEver(hca, remains);
}

}  // namespace

bool managerBusy(const Patience& patience) {
  if (g_managed.load(std::memory_order_acquire) <= 0) return false;
  const Clock::duration latest(g_latest.load(std::memory_order_acquire));
  return Clock::now().time_since_epoch() - latest < patience.managerBusy();
}

std::shared_ptr<Fence> Fence::begin(Hca& hca, std::vector<ibv_qp*> queue_pairs) {
  std::shared_ptr<Fence> fence(new Fence(hca, std::move(queue_pairs)));
  if (fence->unproven_.empty() || hca.state().fatal() || hca.inForkedChild()) return fence;
  fence->asks_ = true;
  if (!hca.stops().run([fence] { fence->ask(); })) fence->ask();
  return fence;
}

void Fence::ask() {
  std::unique_lock lock(mutex_);
  int refusal = 0;
  for (std::size_t i = 0; i < unproven_.size() && !ceased_ && !hca_.state().fatal();) {
    calling_ = true;
    lock.unlock();
    const int error = stop(unproven_[i]);
    lock.lock();
    calling_ = false;
    if (error == 0) {
      unproven_.erase(unproven_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      refusal = error;
      ++i;
    }
  }
  changed_.notify_all();
  asks_ = false;
  if (ceased_) return;
  refusal_ = refusal;
  if (unproven_.empty() || hca_.state().fatal()) return;
  if (refused_since_ == Clock::time_point()) refused_since_ = Clock::now();
  asks_ = true;
  lock.unlock();
  hca_.noteRefusal(Hca::Refusal::kStop, refusal);
  if (askLater()) return;
  lock.lock();
  asks_ = false;  // proven() begins again
}

bool Fence::askLater() noexcept {
  try {
    return hca_.stops().runAfter(Patience::kStopAskAgain, [self = shared_from_this()] { self->ask(); });
  } catch (const std::bad_alloc&) {  // no memory for the job
    return false;
  }
}

bool Fence::proven() {
  if (hca_.inForkedChild() || hca_.state().fatal()) return true;
  (void)hca_.answers();  // says so once if it does not
  std::unique_lock lock(mutex_);
  if (unproven_.empty() || destroyed_) return true;
  if (asks_ || ceased_) return false;
  asks_ = true;
  lock.unlock();
  if (!askLater()) ask();  // without a thread
  return false;
}

std::optional<Clock::time_point> Fence::refusedSince() const {
  if (hca_.inForkedChild()) return {};
  const std::lock_guard lock(mutex_);
  if (refusal_ == 0 || destroyed_) return {};
  return refused_since_;
}

std::string Fence::refusal() const {
  if (hca_.inForkedChild()) return "";
  const std::lock_guard lock(mutex_);
  if (refusal_ == 0 || destroyed_) return "";
  return std::string(hca_.name()) +
         ": ibv_modify_qp refuses to stop a queue pair: " + std::strerror(refusal_);
}

void Fence::cease() {
  if (hca_.inForkedChild()) return;
  std::unique_lock lock(mutex_);
  ceased_ = true;
  changed_.wait(lock, [this] { return !calling_; });
}

void Fence::noteStopped(const ibv_qp* queue_pair) {
  const std::lock_guard lock(mutex_);
  std::erase(unproven_, queue_pair);
}

void Fence::noteDestroyed() {
  const std::lock_guard lock(mutex_);
  destroyed_ = true;
}

std::shared_ptr<Remains> Remains::create(std::size_t queue_pairs) {
  auto remains = std::make_shared<Remains>();
  remains->managed.reserve(queue_pairs);
  remains->queue_pairs.reserve(queue_pairs);
  remains->listeners.reserve(1);
  remains->cqs.reserve(1);
  return remains;
}

bool Remains::destroy(Hca& hca) {
  if (hca.inForkedChild()) {
    leaveToParent(*this);
    return true;
  }
  if (fence != nullptr) fence->cease();
  int refusal = 0;
  const auto destroyed = [&](int error) {
    if (error == 0 || hca.state().fatal()) return true;  // a failed device touches no memory
    refusal = error;
    return false;
  };
  // A queue pair that is stopped is a proof, but its memory stays as long as it exists.
  const auto stillLives = [&](ibv_qp* queue_pair) {
    if (stop(queue_pair) == 0 && fence != nullptr) fence->noteStopped(queue_pair);
    return false;
  };
  std::erase_if(managed, [&](const auto& each) {
    return destroyed(each->destroyQueuePair()) || stillLives(each->qp());
  });
  std::erase_if(queue_pairs,
                [&](verbs::Qp& each) { return destroyed(verbs::destroy(each)) || stillLives(each.get()); });
  g_managed.fetch_sub(std::exchange(counted, 0), std::memory_order_acq_rel);
  if (refusal != 0) {
    hca.noteRefusal(Hca::Refusal::kDestruction, refusal);
    return false;
  }
  listeners.clear();
  cqs.clear();
  memory.reset();
  if (fence != nullptr) fence->noteDestroyed();
  return true;
}

void destroyLater(Hca& hca, const std::shared_ptr<Remains>& remains) noexcept {
  if (hca.inForkedChild()) return leaveToParent(*remains);
  remains->counted = static_cast<int>(remains->managed.size());
  if (remains->counted > 0) {
    g_latest.store(Clock::now().time_since_epoch().count(), std::memory_order_release);
    g_managed.fetch_add(remains->counted, std::memory_order_acq_rel);
  }
  // Their flags may go before them.
  for (const verbs::Qp& each : remains->queue_pairs) hca.state().detach(*each);
  for (const auto& each : remains->managed) hca.state().detach(*each->qp());
  for (const verbs::Cq& each : remains->cqs) hca.state().detach(*each);
  bool taken = false;
  try {
    taken = hca.destructions().run([&hca, remains] { tryToDestroy(hca, remains, Patience::kStopAskAgain); });
  } catch (const std::bad_alloc&) {  // no memory for the job
  }
  if (!taken) tryToDestroy(hca, remains, Patience::kStopAskAgain);
}

void destroyNow(Hca& hca, const std::shared_ptr<Remains>& remains) noexcept {
  if (!remains->destroy(hca)) destroyLater(hca, remains);
}

}  // namespace railwise::net
