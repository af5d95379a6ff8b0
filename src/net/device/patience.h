// A device that refuses something although it has not failed is asked again for 21 ms: it may lack memory for
// a moment. Or it has failed, and its event has not been read yet.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <thread>

#include "base/clock.h"
#include "base/status.h"
#include "verbs/handles.h"

namespace railwise::net {

inline constexpr std::array<Clock::duration, 3> kRefusalPauses = {
    std::chrono::milliseconds(1), std::chrono::milliseconds(4), std::chrono::milliseconds(16)};

inline bool mayPass(Status refusal) {
  return refusal.code == Code::kSystem && verbs::mayPass(refusal.sys_errno);
}
template <typename T>
bool mayPass(const Result<T>& refusal) {
  return mayPass(refusal.status());
}

// Calls `ask(last)` until it succeeds, `last` is true, its error cannot pass, or `goOn()` is false. Returns
// its last answer, a Status or a Result. The caller holds no lock, because this sleeps.
template <typename Ask, typename GoOn>
auto askPatiently(Ask ask, GoOn goOn) {
  for (const Clock::duration pause : kRefusalPauses) {
    auto answer = ask(false);
    if (answer.ok() || !mayPass(answer) || !goOn()) return answer;
    std::this_thread::sleep_for(pause);
    if (!goOn()) return answer;
  }
  return ask(true);
}

}  // namespace railwise::net
