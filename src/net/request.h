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
  Kind kind = Kind::kFree;
  bool done = false;
  uint8_t count = 0;   // sizes that test() reports
  uint32_t bytes = 0;  // of a send
};
static_assert(sizeof(Request) == 16);

}  // namespace railwise::net
