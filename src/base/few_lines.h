// Lines that come in floods: a port can take a thousand connections with it, and a device that refuses
// refuses again. Of such lines the first two in ten seconds are warnings, the others information.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/log.h"

namespace railwise {

// Counts the lines of one kind. Thread-safe.
class FewLines {
 public:
  static constexpr int kWarnings = 2;

  // The number of this line in its period, from 1.
  int take() {
    const std::lock_guard lock(mutex_);
    const Clock::time_point now = Clock::now();
    if (now - since_ > kPeriod) {
      since_ = now;
      taken_ = 0;
    }
    return ++taken_;
  }
  void warn(const std::string& line) {
    if (take() <= kWarnings) RAILWISE_WARN("%s", line.c_str());
    else RAILWISE_INFO(log::kNet, "%s", line.c_str());
  }

 private:
  static constexpr auto kPeriod = std::chrono::seconds(10);

  std::mutex mutex_;
  Clock::time_point since_ = {};
  int taken_ = 0;
};

}  // namespace railwise
