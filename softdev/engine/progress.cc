#include "softdev/engine/progress.h"

#include <algorithm>
#include <condition_variable>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "base/background_thread.h"
#include "softdev/engine/requester.h"
#include "softdev/queues/random.h"

namespace railwise::softdev {
namespace {

using std::chrono::microseconds;

bool nothingWaits(Qp& qp) {
  std::lock_guard lock(qp.inbox_lock);
  return qp.parked.empty() && qp.inbox.empty();
}

class Progress {
 public:
  void add(Qp& qp) {
    {
      std::lock_guard lock(mutex_);
      if (!qp.waiting) {
        waiting_.push_back(&qp);
        qp.waiting = true;
        if (!qp.engine) as<Cq>(qp.qp_base.send_cq).parked.fetch_add(1, std::memory_order_relaxed);
      }
      try {
        wake();
      } catch (const std::system_error&) {  // posts and polls try what waits; the next send asks again
        if (qp.engine) throw;
      }
    }
    work_.notify_one();
  }

  void remove(Qp& qp) {
    std::unique_lock lock(mutex_);
    forget(qp);  // first, otherwise the thread would try the QP again and again
    idle_.wait(lock, [&] { return active_ != &qp; });
  }

  void retryOn(const Cq& cq) {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    for (size_t i = waiting_.size(); i-- > 0;) {
      Qp& qp = *waiting_[i];
      if (&as<Cq>(qp.qp_base.send_cq) != &cq || qp.engine) continue;
      const std::unique_lock sends(qp.sq_lock, std::try_to_lock);
      if (!sends.owns_lock()) continue;
      retryParked(qp);
      if (qp.parked.empty()) forget(qp);
    }
  }

  void stop() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    work_.notify_one();
    if (thread_.joinable()) thread_.join();
    const std::lock_guard lock(mutex_);
    stopping_ = false;
    waiting_ = std::vector<Qp*>();  // gives their memory back, too
    round_ = std::vector<Qp*>();
  }

 private:
  // Makes the thread look again. The caller holds mutex_.
  void wake() {
    news_ = true;
    if (!running_) start();
  }

  void forget(Qp& qp) {
    if (!qp.waiting) return;
    qp.waiting = false;
    std::erase(waiting_, &qp);
    if (!qp.engine) as<Cq>(qp.qp_base.send_cq).parked.fetch_sub(1, std::memory_order_relaxed);
  }

  void start() {
    thread_ = startBackgroundThread([this] { run(); });  // it waits for mutex_
    running_ = true;
  }

  // Tries one QP with the mutex released. True if something has progressed.
  bool tryOne(std::unique_lock<std::mutex>& lock, Qp& qp) {
    active_ = &qp;
    lock.unlock();
    bool moved = false;  // stays false if the owner holds sq_lock, which may take long
    if (qp.sq_lock.try_lock()) {
      const size_t before = qp.parked.size();
      retryParked(qp);
      moved = qp.parked.size() != before || qp.parked.empty();
      lock.lock();
      // Forgets the QP under the mutex, because a thread that posts queues the send first and then adds the
      // QP.
      if (nothingWaits(qp)) forget(qp);
      lock.unlock();
      qp.sq_lock.unlock();
    }
    lock.lock();
    active_ = nullptr;
    idle_.notify_all();
    return moved;
  }

  // Tries every waiting QP once, in random order. True if something has progressed.
  bool pass(std::unique_lock<std::mutex>& lock) {
    bool moved = false;
    try {
      round_ = waiting_;
    } catch (const std::bad_alloc&) {  // the next time
      return false;
    }
    for (size_t i = round_.size(); i > 1; --i) std::swap(round_[i - 1], round_[random_.below(i)]);
    for (Qp* qp : round_) {
      if (stopping_) break;
      // The QP may be gone, because the mutex was free in between.
      if (std::find(waiting_.begin(), waiting_.end(), qp) != waiting_.end()) moved |= tryOne(lock, *qp);
    }
    return moved;
  }

  void run() {
    constexpr int kEagerPasses = 100;  // after that many passes the peer will probably not come soon
    constexpr microseconds kLinger(20'000);
    int idle_passes = 0;
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      news_ = false;
      idle_passes = pass(lock) ? 0 : idle_passes + 1;
      microseconds pause = kLinger;
      if (!waiting_.empty())
        pause = idle_passes == 0 ? microseconds(0) : microseconds(idle_passes < kEagerPasses ? 100 : 1000);
      if (pause.count() == 0 || news_ || stopping_) continue;
      const bool told = work_.wait_for(lock, pause, [&] { return news_ || stopping_; });
      if (!told && waiting_.empty()) break;
    }
    running_ = false;
    if (!stopping_) thread_.detach();  // nobody will join the thread
  }

  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable idle_;
  std::vector<Qp*> waiting_;
  std::vector<Qp*> round_;  // used only by the thread
  std::thread thread_;
  Qp* active_ = nullptr;
  bool running_ = false;
  bool news_ = false;
  bool stopping_ = false;
  Random random_{1};
};

// Never destroyed, because its thread may outlive static destruction. A forked child keeps the parent's
// object in `lost` and takes `spare`.
struct Holder {
  Progress* current = new Progress;
  Progress* spare = nullptr;
  Progress* lost = nullptr;
};

Holder& holder() {
  static auto* instance = new Holder;
  return *instance;
}

}  // namespace

void progressAdd(Qp& qp) { holder().current->add(qp); }
void progressRemove(Qp& qp) { holder().current->remove(qp); }
void retryParkedOn(Cq& cq) { holder().current->retryOn(cq); }
void stopProgress() { holder().current->stop(); }

void prepareToForgetProgress() {
  if (holder().spare == nullptr) holder().spare = new (std::nothrow) Progress;
}
void forgetProgress() {
  holder().lost = holder().current;
  holder().current = std::exchange(holder().spare, nullptr);
  if (holder().current == nullptr) holder().current = new Progress;
}

}  // namespace railwise::softdev
