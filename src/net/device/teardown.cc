#include "net/device/teardown.h"

#include <unistd.h>

#include <atomic>
#include <new>
#include <utility>

#include "base/clock.h"
#include "verbs/library.h"

namespace railwise::net {
namespace {

std::atomic<int> g_managed{0};        // connections of RDMA CM that are being destroyed
std::atomic<Clock::rep> g_latest{0};  // when the latest of them was handed over
// siw gives a peer that does not answer up after 7 s, with few retries of TCP. A driver that never answers
// must not keep the connections of other devices waiting.
constexpr Clock::duration kManagerPatience = std::chrono::seconds(8);

}  // namespace

bool managerBusy() {
  if (g_managed.load(std::memory_order_acquire) <= 0) return false;
  const Clock::duration latest(g_latest.load(std::memory_order_acquire));
  return Clock::now().time_since_epoch() - latest < kManagerPatience;
}

Stop::Stop(Hca& hca, std::vector<ibv_qp*> queue_pairs)
    : hca_(hca), queue_pairs_(std::move(queue_pairs)), owner_pid_(getpid()) {}

bool Stop::inForkedChild() const { return getpid() != owner_pid_; }

std::shared_ptr<Stop> Stop::begin(Hca& hca, std::vector<ibv_qp*> queue_pairs) {
  std::shared_ptr<Stop> stop(new Stop(hca, std::move(queue_pairs)));
  if (stop->queue_pairs_.empty() || hca.state().fatal()) {
    stop->done_ = true;  // a device that has failed does not answer
  } else if (!hca.stops().run([stop] { stop->ask(); })) {
    stop->ask();
  }
  return stop;
}

void Stop::ask() {
  for (ibv_qp* const queue_pair : queue_pairs_) {
    if (hca_.state().fatal()) break;
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_ERR;
    (void)verbs::library().modify_qp(queue_pair, &attributes, IBV_QP_STATE);
  }
  const std::lock_guard lock(mutex_);
  done_ = true;
  changed_.notify_all();
}

bool Stop::over() {
  if (inForkedChild() || hca_.state().fatal()) return true;
  (void)hca_.answers();  // says so once if it does not
  const std::lock_guard lock(mutex_);
  return done_;
}

void Stop::waitUntilDone() {
  if (inForkedChild()) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_; });
}

void Remains::destroy() {
  if (stop != nullptr) stop->waitUntilDone();
  managed.clear();
  g_managed.fetch_sub(std::exchange(counted, 0), std::memory_order_acq_rel);
  queue_pairs.clear();
  listeners.clear();
  cqs.clear();
  memory.reset();
}

void destroyLater(Hca& hca, const std::shared_ptr<Remains>& remains) noexcept {
  remains->counted = static_cast<int>(remains->managed.size());
  if (remains->counted > 0) {
    g_latest.store(Clock::now().time_since_epoch().count(), std::memory_order_release);
    g_managed.fetch_add(remains->counted, std::memory_order_acq_rel);
  }
  bool taken = false;
  try {
    taken = hca.destructions().run([remains] { remains->destroy(); });
  } catch (const std::bad_alloc&) {  // no memory for the job
  }
  if (!taken) remains->destroy();
}

void destroyLater(Hca& hca, verbs::Qp queue_pair, verbs::Cq cq,
                  const std::shared_ptr<const void>& memory) noexcept {
  try {
    const auto remains = std::make_shared<Remains>();
    remains->memory = memory;
    remains->queue_pairs.push_back(std::move(queue_pair));
    remains->cqs.push_back(std::move(cq));
    destroyLater(hca, remains);
  } catch (const std::bad_alloc&) {
    queue_pair.reset();  // before its completion queue
  }
}

}  // namespace railwise::net
