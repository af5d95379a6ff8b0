// One outstanding send, receive or flush: what NCCL holds as request.
#pragma once

#include <array>
#include <cstdint>

#include "net/limits.h"

namespace railwise::net {

class Connection;

struct alignas(64) Request {
  enum class Kind : uint8_t { kFree, kSend, kReceive, kFlush };

  Connection* connection = nullptr;
  Kind kind = Kind::kFree;
  bool done = false;
  uint8_t count = 0;                              // sizes that are valid
  std::array<uint32_t, kMaxReceives> sizes = {};  // bytes, when done
};
static_assert(sizeof(Request) == 64);

}  // namespace railwise::net
