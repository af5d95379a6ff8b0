#include "softdev/progress.h"

#include <signal.h>

#include <algorithm>
#include <condition_variable>
#include <thread>

#include "softdev/requester.h"

namespace railwise::softdev {
namespace {

class Progress {
 public:
  void add(Qp& qp) {
    std::lock_guard lock(mutex_);
    if (std::find(waiting_.begin(), waiting_.end(), &qp) != waiting_.end()) return;
    waiting_.push_back(&qp);
    as<Cq>(qp.qp_base.send_cq).parked.fetch_add(1, std::memory_order_relaxed);
    idle_passes_ = 0;
    if (!running_) start();
  }

  void remove(Qp& qp) {
    std::lock_guard lock(mutex_);
    const auto at = std::find(waiting_.begin(), waiting_.end(), &qp);
    if (at != waiting_.end()) erase(at);
  }

  void retryOn(const Cq& cq) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock.owns_lock()) pass(&cq);
  }

  void stop() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  using Iterator = std::vector<Qp*>::iterator;

  Iterator erase(Iterator at) {
    as<Cq>((*at)->qp_base.send_cq).parked.fetch_sub(1, std::memory_order_relaxed);
    return waiting_.erase(at);
  }

  // Signals are the application's: the thread inherits a mask that blocks them all.
  void start() {
    if (thread_.joinable()) thread_.join();  // it has left run() already
    running_ = true;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void pass(const Cq* only) {
    for (Iterator at = waiting_.begin(); at != waiting_.end();) {
      Qp& qp = **at;
      if (only != nullptr && &as<Cq>(qp.qp_base.send_cq) != only) {
        ++at;
        continue;
      }
      const std::unique_lock lock(qp.sq_lock, std::try_to_lock);
      if (lock.owns_lock()) retryParked(qp);
      at = lock.owns_lock() && qp.parked.empty() ? erase(at) : at + 1;
    }
  }

  void run() {
    constexpr int kEagerPasses = 100;  // then the peer is not about to come
    std::unique_lock lock(mutex_);
    while (!waiting_.empty()) {
      pass(nullptr);
      if (waiting_.empty()) break;
      const std::chrono::microseconds pause(idle_passes_++ < kEagerPasses ? 100 : 1000);
      lock.unlock();
      std::this_thread::sleep_for(pause);
      lock.lock();
    }
    running_ = false;
  }

  std::mutex mutex_;
  std::vector<Qp*> waiting_;
  std::thread thread_;
  bool running_ = false;
  int idle_passes_ = 0;
};

// Never destroyed: its thread may outlive static destruction. A child keeps its parent's in `lost` and gets a
// new one.
struct Holder {
  Progress* current = new Progress;
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

void forgetProgress() {
  holder().lost = holder().current;
  holder().current = new Progress;
}

}  // namespace railwise::softdev
