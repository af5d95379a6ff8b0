// The C interface of the counters (include/railwise/device.h).
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "railwise/device.h"
#include "softdev/drop_in/front.h"

namespace {

// Writes the first `size` bytes of the counts in the C layout. If the caller's struct is larger, its other
// fields become 0.
int give(const railwise::softdev::Counters& from, struct railwise_device_counts* counters, size_t size) {
  struct railwise_device_counts all {};
  all.post_send_calls = from.post_send_calls;
  all.writes = from.writes;
  all.writes_with_imm = from.writes_with_imm;
  all.reads = from.reads;
  all.sends = from.sends;
  all.atomics = from.atomics;
  all.send_sges = from.send_sges;
  all.inline_sends = from.inline_sends;
  all.signalled_sends = from.signalled_sends;
  all.receives = from.receives;
  all.post_recv_calls = from.post_recv_calls;
  all.poll_calls = from.poll_calls;
  all.empty_polls = from.empty_polls;
  all.completions = from.completions;
  all.bytes = from.bytes;
  all.system_calls = from.system_calls;
  std::memset(counters, 0, size);
  std::memcpy(counters, &all, std::min(size, sizeof all));
  return 0;
}

}  // namespace

RAILWISE_EXPORT int railwise_device_counters(const ibv_context* context,
                                             struct railwise_device_counts* counters, size_t size) {
  if (context == nullptr || counters == nullptr) return EINVAL;
  return give(railwise::softdev::counters(context), counters, size);
}

RAILWISE_EXPORT int railwise_device_qp_counters(const ibv_qp* qp, struct railwise_device_counts* counters,
                                                size_t size) {
  if (qp == nullptr || counters == nullptr) return EINVAL;
  return give(railwise::softdev::qpCounters(qp), counters, size);
}
