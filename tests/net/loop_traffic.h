// Messages over a connection of this process to itself, every byte checked, for tests of what fails
// meanwhile.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "loop_connection.h"
#include "port_control.h"
#include "tests/wait.h"

namespace railwise::net {

// The buffer's halves: sent from the first, received in the second.
inline constexpr std::size_t kHalf = 1 << 20;

// Sends and receives in rows, each message different, and checks every byte.
class Traffic {
 public:
  explicit Traffic(LoopConnection& loop) : loop_(loop) {}

  // `count` messages of `bytes`, `window` at a time. False: a call failed.
  bool run(int count, std::size_t bytes, int window = 8) {
    for (int begin = 0; begin < count; begin += window) {
      if (!row(std::min(window, count - begin), bytes)) return false;
    }
    return true;
  }

 private:
  bool row(int messages, std::size_t bytes) {
    std::vector<Request*> requests;
    for (int i = 0; i < messages; ++i) {
      fill(i, bytes);
      Request* receive = nullptr;
      for (test::Patience patience; receive == nullptr; patience.again()) {
        const ReceiveBuffer buffer = {at(kHalf, i, bytes), bytes, 0, loop_.memory(), nullptr};
        if (!loop_.receiver().irecv({&buffer, 1}, false, &receive).ok()) return false;
        if (receive == nullptr && !nudge(requests)) return false;
      }
      requests.push_back(receive);
    }
    for (int i = 0; i < messages; ++i) {
      Request* send = nullptr;
      for (test::Patience patience; send == nullptr; patience.again()) {
        if (!loop_.sender().isend(at(0, i, bytes), bytes, 0, loop_.memory(), nullptr, &send).ok())
          return false;
        if (send == nullptr && !nudge(requests)) return false;
      }
      requests.push_back(send);
    }
    for (test::Patience patience; !requests.empty(); patience.again()) {
      if (!nudge(requests)) return false;
    }
    for (int i = 0; i < messages; ++i) {
      const auto offset = static_cast<std::size_t>(i) * bytes;
      EXPECT_EQ(std::memcmp(loop_.at(offset), loop_.at(kHalf + offset), bytes), 0) << "message " << i;
    }
    return true;
  }
  // Tests every request once, as a thread with both ends does.
  static bool nudge(std::vector<Request*>& requests) {
    for (std::size_t i = 0; i < requests.size();) {
      bool done = false;
      if (!requests[i]->connection->test(*requests[i], &done, nullptr).ok()) return false;
      if (done) requests.erase(requests.begin() + static_cast<std::ptrdiff_t>(i));
      else ++i;
    }
    return true;
  }
  void fill(int i, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes; ++at) {
      loop_.at(static_cast<std::size_t>(i) * bytes)[at] = static_cast<char>(random_());
      loop_.at(kHalf + static_cast<std::size_t>(i) * bytes)[at] = 0;
    }
  }
  uint64_t at(std::size_t base, int i, std::size_t bytes) const {
    return loop_.address(base + static_cast<std::size_t>(i) * bytes);
  }

  LoopConnection& loop_;
  std::minstd_rand random_{1};
};

// Takes the port of a rail down, and waits until this process knows.
inline void takeDown(LoopConnection& loop, std::size_t rail) {
  test::changePort("soft" + std::to_string(rail) + ":1", "down");
  test::waitUntil([&] { return !loop.device().rails()[rail].hca->state().active(1); });
}

// Has it a path, and does this path begin with that device?
inline bool isOn(LoopConnection& loop, const std::string& device) {
  return loop.sender().running() && loop.sender().rails().front().name == device;
}

// Traffic until `goal`, for 20 s at most.
template <typename Goal>
bool until(Traffic& traffic, Goal&& goal) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(20));
  while (!goal()) {
    if (deadline.passed() || !traffic.run(8, 512)) return false;
  }
  return true;
}

}  // namespace railwise::net
