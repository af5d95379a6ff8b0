// Memory that receives are placed in: at random addresses, with guard bytes on both sides.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>

#include "softdev/queues/random.h"

namespace railwise::test {

// Something was not as it must be.
struct Wrong {
  std::string what;
};

// Pages of our own: neither a sanitizer nor malloc has any part in them.
class Pages {
 public:
  explicit Pages(std::size_t bytes) : bytes_(bytes) {
    void* made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) throw Wrong{"no memory"};
    data_ = static_cast<char*>(made);
  }
  ~Pages() { munmap(data_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  char* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
  char* data_ = nullptr;
};

class Slab {
 public:
  static constexpr std::size_t kGuard = 48;
  // Up to this size every byte is made to differ from what will arrive. Larger ones lie on what earlier
  // messages left there, which differs in almost every byte.
  static constexpr std::size_t kInverted = 1024;

  explicit Slab(std::size_t bytes) : pages_(bytes) {}

  char* data() const { return pages_.data(); }
  std::size_t bytes() const { return pages_.bytes(); }

  // A place for `room` bytes, or nullptr: it is full.
  char* take(softdev::Random& random, std::size_t room) {
    const std::size_t needed = room + 2 * kGuard;
    std::optional<std::size_t> begin;
    for (int attempt = 0; attempt < 4 && !begin; ++attempt) {
      const std::size_t at = random.below(bytes() - needed + 1);
      if (isFree(at, needed)) begin = at;
    }
    if (!begin) begin = firstFit(needed);
    if (!begin) return nullptr;
    used_[*begin] = *begin + needed;
    return data() + *begin + kGuard;
  }
  void give(const char* place) { used_.erase(static_cast<std::size_t>(place - data()) - kGuard); }

  // Before a message of `bytes` that will equal `expected` may arrive.
  static void prepare(char* place, std::size_t room, std::size_t bytes, const char* expected) {
    std::memset(place - kGuard, kGuardByte, kGuard);
    std::memset(place + room, kGuardByte, kGuard);
    std::memset(place + bytes, kGuardByte, std::min(room - bytes, kGuard));
    if (bytes > kInverted) return;
    for (std::size_t i = 0; i < bytes; ++i) place[i] = static_cast<char>(~expected[i]);
  }
  // Empty: all is right; else what is wrong.
  static std::string check(const char* place, std::size_t room, std::size_t bytes, const char* expected) {
    if (std::memcmp(place, expected, bytes) != 0) {
      std::size_t first = 0;
      std::size_t count = 0;
      for (std::size_t i = bytes; i-- > 0;) {
        if (place[i] == expected[i]) continue;
        first = i;
        ++count;
      }
      return std::to_string(count) + " bytes differ, the first at " + std::to_string(first);
    }
    for (std::size_t i = 0; i < kGuard; ++i) {
      const auto where = [&](const char* what) { return what + std::to_string(i) + " was written"; };
      if (place[static_cast<std::ptrdiff_t>(i) - static_cast<std::ptrdiff_t>(kGuard)] != kGuardByte)
        return where("guard byte before the buffer ");
      if (place[room + i] != kGuardByte) return where("guard byte behind the buffer ");
      if (i < room - bytes && place[bytes + i] != kGuardByte) return where("byte behind the message ");
    }
    return "";
  }

 private:
  static constexpr char kGuardByte = 0x5c;

  bool isFree(std::size_t begin, std::size_t bytes) const {
    const auto next = used_.lower_bound(begin);
    if (next != used_.end() && next->first < begin + bytes) return false;
    return next == used_.begin() || std::prev(next)->second <= begin;
  }
  std::optional<std::size_t> firstFit(std::size_t needed) const {
    std::size_t at = 0;
    for (const auto& [begin, end] : used_) {
      if (begin >= at + needed) return at;
      at = end;
    }
    if (at + needed <= bytes()) return at;
    return std::nullopt;
  }

  Pages pages_;
  std::map<std::size_t, std::size_t> used_;  // begin -> end
};

}  // namespace railwise::test
