#include "net/sender/message_times.h"

#include <chrono>

#include "base/clock.h"
#include "net/device/path_news.h"
#include "net/sender/send_work_id.h"
#include "record/writer.h"

namespace railwise::net {

void MessageTimes::begin(ibv_send_wr& work, uint64_t number, uint64_t bytes) {
  work.wr_id |= kSampled;
  next_ = kMeasuring | (number + record::kSample);
  bytes_ = bytes;
  since_ns_ = nowNs();
}

void MessageTimes::end(record::ConnectionRecord& shown) {
  next_ &= ~kMeasuring;
  const uint64_t took_ns = nowNs() - since_ns_;
  RoundTrips::ofProcess().note(std::chrono::nanoseconds(took_ns));
  record::count(shown.latency, took_ns);
  record::count(shown.size, bytes_);
}

}  // namespace railwise::net
