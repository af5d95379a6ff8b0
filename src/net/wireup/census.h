// Which connections of this process are coming up, and whom they wait for. A process whose connections take
// longer than RAILWISE_SLOW_CONNECT logs one warning that names the peers. Threads: any; an Entry by one
// thread at a time.
#pragma once

#include <list>
#include <mutex>
#include <string>

#include "base/clock.h"

namespace railwise::net {

class Census {
 public:
  static Census& ofProcess();

  // A connection that is coming up. It counts as given up when it ends before up().
  class Entry {
   public:
    // `peer`: "host:pid"; "": a listener, which does not know who will call. `heard`: what has been heard of
    // the peer so far, e.g. "nothing heard".
    Entry(Census& census, std::string peer, std::string heard);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    void note(std::string heard);
    // The connection is up.
    void up();

   private:
    struct Coming {
      std::string peer;
      std::string heard;
      Clock::time_point since;
    };
    friend class Census;
    Census& census_;
    std::list<Coming>::iterator place_;
    bool waits_ = true;
  };

  // Called while connections wait. Returns the text of the warning, once until no connection waits any more;
  // "": none is due. `after`: RAILWISE_SLOW_CONNECT; zero: never.
  std::string warningAt(Clock::time_point now, Clock::duration after);

 private:
  std::string waitingFor() const;

  std::mutex mutex_;
  std::list<Entry::Coming> coming_;
  std::size_t up_ = 0;  // since the first of `coming_` began
  bool warned_ = false;
  Clock::time_point last_look_ = {};
};

// Logs the warning of the process's census if it is due.
void warnOfSlowConnect(int slow_connect_s);

}  // namespace railwise::net
