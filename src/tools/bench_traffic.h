// Messages from one connection end to the other in one thread, as `railwise bench` measures them: a window of
// receives is kept posted, sends fill them in order, and the oldest request of each end is tested until it is
// not done. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/net_api.h"

namespace railwise::tools {

struct BenchShape {
  std::size_t size = 8;  // bytes of a message
  int window = 8;        // messages under way at most; at least one group
  int grouped = 1;       // buffers of a receive
};

class BenchTraffic {
 public:
  BenchTraffic(NetApi& api, int device, BenchShape shape);
  ~BenchTraffic();
  BenchTraffic(const BenchTraffic&) = delete;
  BenchTraffic& operator=(const BenchTraffic&) = delete;

  // False: failed, see error().
  bool connect();
  // At least `messages` messages, whole groups. False: failed.
  bool run(uint64_t messages);
  // The same with every byte of every message checked.
  bool verify(uint64_t messages);
  bool close();

  const std::string& error() const { return error_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  using Memory = std::unique_ptr<std::byte, Free>;

  bool check(const char* call, ncclResult_t result);
  bool postReceive();
  bool postSend();
  bool testReceive();
  bool testSend();
  void fill(uint64_t message);
  bool right(uint64_t message);
  std::byte* at(const Memory& memory, uint64_t message) const {
    return memory.get() + message % slots_ * stride_;
  }

  NetApi& api_;
  const int device_;
  const BenchShape shape_;
  const uint64_t group_;
  const uint64_t slots_;  // messages under way at most: whole groups
  const std::size_t stride_;
  Memory from_, to_;
  void* listener_ = nullptr;
  void* send_ = nullptr;
  void* receive_ = nullptr;
  void* from_handle_ = nullptr;
  void* to_handle_ = nullptr;
  std::vector<void*> sends_;     // requests, by message
  std::vector<void*> receives_;  // by group
  // Messages since the beginning.
  uint64_t receive_posted_ = 0, received_ = 0, send_posted_ = 0, sent_ = 0;
  bool verifying_ = false;
  std::string error_;
};

}  // namespace railwise::tools
