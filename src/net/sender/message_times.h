// The time of one message in record::kSample is measured, from its post to its completion. One thread at a
// time.
#pragma once

#include <cstdint>

#include "record/layout.h"
#include "verbs/handles.h"

namespace railwise::net {

class MessageTimes {
 public:
  // Every message asks. Never while one is being measured.
  bool isDue(uint64_t number) const { return number >= next_; }
  // Measures message `number`, of `bytes` in `work`, which is signalled and is posted next.
  [[gnu::noinline]] void begin(ibv_send_wr& work, uint64_t number, uint64_t bytes);
  // The message that is being measured is complete. `shown` counts its time and size.
  [[gnu::cold, gnu::noinline]] void end(record::ConnectionRecord& shown);
  // The completion that was waited for may never come. Measures message `next`.
  void restart(uint64_t next) { next_ = next; }

 private:
  // The first message that is measured. A job of short connections has no samples, and pays nothing for them.
  static constexpr uint64_t kFirst = 64;
  // This bit makes next_ larger than every message's number.
  static constexpr uint64_t kMeasuring = uint64_t{1} << 63;

  uint64_t next_ = kFirst;  // with kMeasuring: the one after the message that is being measured
  uint64_t bytes_ = 0;      // of the message that is being measured
  uint64_t since_ns_ = 0;   // when it was posted
};

}  // namespace railwise::net
