// Which requests for inline bytes a device has refused, so that it refuses each of them once and not for each
// queue pair. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "base/light_mutex.h"

namespace railwise::verbs {

class InlineLimits {
 public:
  // What a device's answer depends on: a queue pair with more requests may have fewer inline bytes.
  struct Shape {
    uint32_t send_requests;
    uint32_t receive_requests;
    bool out_of_order;
    bool operator==(const Shape&) const = default;
  };

  // What to ask for: `wanted`, halved until it is less than what was refused.
  uint32_t askFor(const Shape& shape, uint32_t wanted) const {
    const std::lock_guard lock(mutex_);
    for (const Refused& each : refused_) {
      if (each.shape != shape) continue;
      while (wanted >= each.bytes) wanted /= 2;
    }
    return wanted;
  }
  // The device has refused `bytes` (not 0) and granted fewer.
  void note(const Shape& shape, uint32_t bytes) {
    const std::lock_guard lock(mutex_);
    refused_.push_back({shape, bytes});
  }

 private:
  struct Refused {
    Shape shape;
    uint32_t bytes;
  };
  mutable LightMutex mutex_;
  std::vector<Refused> refused_;  // few: a connection has three kinds of queue pairs
};

}  // namespace railwise::verbs
