// What this rank is doing and whether it moves: the phase in words, for messages, and a counter that the
// bootstrap's watchdog follows. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

namespace railwise::tools {

class Activity {
 public:
  void tick() { ticks_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t ticks() const { return ticks_.load(std::memory_order_relaxed); }

  // A new phase ("waiting for the other ranks ...") is progress, too.
  void setPhase(std::string phase) {
    const std::lock_guard lock(mutex_);
    phase_ = std::move(phase);
    tick();
  }
  // Adds what the phase waits for, at the moment of the question; null: nothing to add.
  void setDetail(std::function<std::string()> detail) {
    const std::lock_guard lock(mutex_);
    detail_ = std::move(detail);
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    const std::string detail = detail_ ? detail_() : std::string();
    return detail.empty() ? phase_ : phase_ + ", " + detail;
  }

 private:
  std::atomic<uint64_t> ticks_{0};
  mutable std::mutex mutex_;
  std::string phase_ = "starting";
  std::function<std::string()> detail_;
};

// The first failure of this rank, in words; later ones are consequences. Thread-safe.
class FailureNote {
 public:
  // `result`: of the plugin's call that failed, if it was one.
  void set(std::string text, int result = 0) {
    const std::lock_guard lock(mutex_);
    if (!text_.empty()) return;
    text_ = std::move(text);
    result_ = result;
  }
  int result() const {
    const std::lock_guard lock(mutex_);
    return result_;
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
  int result_ = 0;
};

}  // namespace railwise::tools
