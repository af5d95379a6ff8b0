// One outstanding send, receive or flush: what NCCL holds as request. It lives in its connection, never in a
// queue pair: what a queue pair that fails takes with it is only the way, not the state.
#pragma once

#include <array>
#include <cstdint>

#include "net/limits.h"

namespace railwise::net {

class Connection;

struct Request {
  enum class Kind : uint8_t { kFree, kSend, kReceive, kFlush };

  Connection* connection = nullptr;
  // Of the receive, also at the sender. A send is complete as soon as the connection knows of all sends up to
  // this number that they are; UINT64_MAX: only `done` says so.
  uint64_t number = UINT64_MAX;
  uint32_t bytes = 0;  // of a send; of each message of a receive whose messages are of one size
  Kind kind = Kind::kFree;
  bool done = false;
  uint8_t count = 0;  // sizes that test() reports
};
static_assert(sizeof(Request) == 24);

}  // namespace railwise::net
