// How long a device is asked again that refuses something although it has not failed: it may lack memory for
// a moment, or have failed, which its event has not said yet.
#pragma once

#include <array>
#include <chrono>

#include "base/clock.h"
#include "base/status.h"
#include "verbs/handles.h"

namespace railwise::net {

inline constexpr std::array<Clock::duration, 3> kRefusalPauses = {
    std::chrono::milliseconds(1), std::chrono::milliseconds(4), std::chrono::milliseconds(16)};

inline bool mayPass(Status refusal) {
  return refusal.code == Code::kSystem && verbs::mayPass(refusal.sys_errno);
}

}  // namespace railwise::net
