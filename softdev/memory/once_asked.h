// A yes or no that is found out once for the process. Thread-safe; several threads may find it out at once.
// Not a static of a function: a child that is forked while another thread initialises one waits for ever.
#pragma once

#include <atomic>
#include <cstdint>

namespace railwise {

class OnceAsked {
 public:
  constexpr OnceAsked() = default;
  template <typename Find>
  bool operator()(Find&& find) {
    int8_t answer = answer_.load(std::memory_order_acquire);
    if (answer < 0) {
      answer = find() ? 1 : 0;
      answer_.store(answer, std::memory_order_release);
    }
    return answer != 0;
  }

 private:
  std::atomic<int8_t> answer_{-1};
};

}  // namespace railwise
