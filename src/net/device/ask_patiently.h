// Asks a device again that refuses something although it has not failed (Patience::kRefusalPauses).
#pragma once

#include <thread>

#include "base/clock.h"
#include "base/status.h"
#include "net/patience.h"
#include "verbs/handles.h"

namespace railwise::net {

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
  for (const Clock::duration pause : Patience::kRefusalPauses) {
    auto answer = ask(false);
    if (answer.ok() || !mayPass(answer) || !goOn()) return answer;
    std::this_thread::sleep_for(pause);
    if (!goOn()) return answer;
  }
  return ask(true);
}

}  // namespace railwise::net
