// Devices that have failed (a reset, a driver's recovery, a removal) and come back: they are opened anew, so
// that connections which have gone elsewhere can go back to them, and those that found nothing else go on.
// The old context stays as it is, dead, with all that was made over it. Used by net::DeviceList.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "net/device/device.h"

namespace railwise::net {

// Has a thread of its own from the first failure on, since a driver in trouble may answer after seconds, and
// the events of other devices must not wait for that.
class Reopener {
 public:
  // `config` and `watcher` outlive stop().
  Reopener(const Config& config, EventWatcher& watcher);
  Reopener(const Reopener&) = delete;
  Reopener& operator=(const Reopener&) = delete;
  ~Reopener() { stop(); }

  // Once `hca` has failed it is opened anew, again and again until that works; so is what comes of it. Before
  // it is watched.
  void guard(Hca& hca);
  // Ends the thread; nothing is opened from now on. In a forked child, which has no such thread, it leaves
  // everything as it is.
  void stop();

 private:
  struct Failed {
    Hca* hca;
    int attempts;
    Clock::time_point due;
  };
  void onFailure(Hca& hca);
  void run();
  bool reopen(const Failed& failed);
  Clock::duration pause(int attempts) const;

  const Config& config_;
  EventWatcher& watcher_;
  const int owner_pid_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool stopping_ = false;
  std::vector<Failed> failed_;
  std::thread thread_;
};

}  // namespace railwise::net
