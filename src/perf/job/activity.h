// What this rank does, and whether it makes progress: the phase in words, for messages, and a counter that
// the bootstrap's watchdog checks. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

namespace railwise::cli {

class Activity {
 public:
  void tick() { ticks_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t ticks() const { return ticks_.load(std::memory_order_relaxed); }

  // Sets the phase ("waiting for the other ranks ..."). A new phase counts as progress.
  void setPhase(std::string phase) {
    const std::lock_guard lock(mutex_);
    phase_ = std::move(phase);
    tick();
  }
  // Sets a function that says what the phase waits for. text() calls it. Null: there is nothing to add.
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

// The first failure of this rank, in words. Later failures are consequences of it and are not kept.
// Thread-safe.
class FailureNote {
 public:
  // `result` is the result of the plugin's call, if a call failed; otherwise 0.
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

}  // namespace railwise::cli
