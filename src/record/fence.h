// The fence between a sequence number and the fields that it guards, in the writer and in the reader.
#pragma once

#include <atomic>

namespace railwise::record {

// Neither the compiler nor the CPU moves loads or stores of the record over it.
inline void fence() {
#if defined(__SANITIZE_THREAD__)  // gcc's ThreadSanitizer has no fences
  std::atomic_signal_fence(std::memory_order_acq_rel);
#else
  std::atomic_thread_fence(std::memory_order_acq_rel);
#endif
}

}  // namespace railwise::record
