// One outstanding send, receive or flush: what NCCL holds as its request. It belongs to the connection, never
// to a queue pair. When a queue pair fails, only the path is lost, not the state of the request.
#pragma once

#include <array>
#include <cstdint>

#include "net/limits.h"

namespace railwise::net {

class Connection;

struct Request {
  enum class Kind : uint8_t { kFree, kSend, kReceive, kFlush };

  Connection* connection = nullptr;
  // Number of the receive; at the sender: of the receive that the message goes to. The request is complete
  // when the connection knows that everything up to this number is complete. UINT64_MAX: only `done` shows
  // whether the request is complete.
  uint64_t number = UINT64_MAX;
  uint32_t bytes = 0;  // size of a send; size of each message of a receive whose messages are of one size
  Kind kind = Kind::kFree;
  bool done = false;
  uint8_t count = 0;  // number of sizes that test() reports
};
static_assert(sizeof(Request) == 24);

}  // namespace railwise::net
