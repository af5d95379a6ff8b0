// Opens devices anew after they have failed (a reset, a driver's recovery, a removal), and registers with
// them what was registered before. Connections that use other paths meanwhile can then go back to the device,
// and connections without a path go on. The failed context, and everything that was made over it, stays in
// memory and cannot be used. Used by net::DeviceList.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "net/device/device.h"

namespace railwise::net {

// Has a thread of its own from the first failure on, because the driver of a failed device may answer only
// after seconds, and the events of other devices must not wait for that.
class Reopener {
 public:
  // `watcher` outlives stop().
  Reopener(const Config& config, EventWatcher& watcher);
  Reopener(const Reopener&) = delete;
  Reopener& operator=(const Reopener&) = delete;
  ~Reopener() { stop(); }

  // Once `hca` has failed, the reopener tries to open it anew until that works, and guards the new generation
  // too. A device that has failed 16 times is not opened again. Call guard() before `hca` is watched.
  void guard(Hca& hca);
  // Ends the thread; nothing is opened from now on. A driver that does not answer keeps the thread for as
  // long as it likes, but not the caller: the thread then ends by itself. In a forked child, which has no
  // such thread, it only drops its copies of the thread and of what the thread works on.
  void stop();

 private:
  struct Failed {
    Hca* hca;
    int attempts;
    Clock::time_point due;
  };
  // What the thread works on. It may outlive the reopener, and then touches nothing else.
  struct Work {
    const Config config;
    std::mutex mutex;  // guards the members below
    std::condition_variable changed;
    bool stopping = false;
    bool opening = false;  // inside the driver
    bool left = false;     // the driver did not answer in time, and stop() has left the thread behind
    std::vector<Failed> failed;
    // Destroyed after the devices, whose caches have registrations with it.
    std::unique_ptr<Hca> unpublished;
  };
  void onFailure(Hca& hca);
  void run(const std::shared_ptr<Work>& work);
  bool takeBack(Work& work, const Failed& failed, Result<std::unique_ptr<Hca>> made,
                const std::string& problem);
  static bool publish(Work& work, Hca& hca, std::unique_ptr<Hca>& fresh);
  static bool renewAll(Work& work, Renewable& memory, ibv_pd* before, Hca& fresh, Clock::time_point until);
  static Clock::duration pause(const Config& config, int attempts);

  EventWatcher& watcher_;
  const int owner_pid_;
  std::shared_ptr<Work> work_;
  std::thread thread_;  // guarded by work_->mutex
};

}  // namespace railwise::net
