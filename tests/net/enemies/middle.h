// A man in the middle: takes the calls to a listener, passes the bytes on in both directions, and lets a test
// change them. A thread of its own moves the bytes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "net/wireup/handshake.h"

namespace railwise::net {

enum class From : uint8_t { kConnector, kListener };

// Where some bytes stand: `at` counts the bytes of this direction of this call. Calls count from 1.
struct Place {
  From from;
  int call;
  uint64_t at;
};

class Middle {
 public:
  // May change the bytes. False: both ends are cut off, after these bytes.
  using Mischief = std::function<bool(const Place& place, std::string& bytes)>;

  explicit Middle(Mischief mischief);
  ~Middle();
  Middle(const Middle&) = delete;
  Middle& operator=(const Middle&) = delete;

  // From now on `handle` leads to this object, and from here to where it has led.
  void stepBetween(char* handle);
  // Cuts all calls now. `reset`: the ends see a reset, not an end.
  void cut(bool reset);
  // The handle as the listener wrote it.
  const ListenHandle& handle() const { return handle_; }
  int calls() const { return calls_; }
  // Everything that one end has said in a call, before it was changed.
  std::string said(From from, int call) const;

 private:
  struct Call {
    Socket ends[2];  // by From: where these bytes come from
    std::string waiting[2];
    std::string said[2];
    uint64_t at[2] = {0, 0};
    bool over = false;
  };
  void run();
  bool take();
  bool pass(Call& call, int number, From from);

  const Mischief mischief_;
  ListenHandle handle_ = {};
  std::vector<SocketAddress> target_;
  Socket socket_;
  std::atomic<int> calls_ = 0;
  mutable std::mutex mutex_;  // guards the next member and target_
  std::vector<std::unique_ptr<Call>> all_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// Changes one byte of the first `calls` calls.
Middle::Mischief changeByte(From from, uint64_t at, int calls = 1);

}  // namespace railwise::net
