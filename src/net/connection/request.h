// One outstanding send, receive or flush: what NCCL holds as its request. It belongs to the connection, never
// to a queue pair. When a queue pair fails, only the path is lost, not the state of the request.
#pragma once

#include <array>
#include <cstdint>

#include "net/limits.h"

namespace railwise::net {

class Connection;

// What a request counts by where no counter will show that it is complete, or it is complete already.
inline constexpr uint64_t kNever = 0;
inline constexpr uint64_t kAlways = UINT64_MAX;

struct Request {
  enum class Kind : uint8_t { kFree, kSend, kReceive, kFlush };

  // The only rule for it, of sends, receives and flushes.
  bool complete() const { return *counter >= due; }

  Connection* connection = nullptr;
  const uint64_t* counter = &kNever;
  uint64_t due = 1;     // at least 1, so that kNever never reaches it
  uint64_t number = 0;  // of the receive; at the sender: of the receive that the message goes to
  uint32_t bytes = 0;   // size of a send; size of each message of a receive whose messages are of one size
  Kind kind = Kind::kFree;
  uint8_t count = 0;  // number of sizes that test() reports
};
static_assert(sizeof(Request) == 40);

}  // namespace railwise::net
