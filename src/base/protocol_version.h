// The version of what two ends of a connection say to each other, from the handshake on
// (net/wireup/handshake.h). Ends with different versions refuse each other; it changes with every change of a
// message.
#pragma once

#include <cstdint>

namespace railwise {

inline constexpr uint16_t kProtocolVersion = 15;

}  // namespace railwise
