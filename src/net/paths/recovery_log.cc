#include "net/paths/recovery_log.h"

#include <algorithm>
#include <utility>

#include "net/patience.h"

namespace railwise::net {
namespace {

constexpr std::size_t kMostTried = 8;
// A passing fault may look like a refusal so many times in a row.
constexpr int kMostRefusals = 16;

}  // namespace

void RecoveryLog::noteTried(const std::string& attempt) {
  tried_.push_back(attempt);
  if (tried_.size() > kMostTried) tried_.erase(tried_.begin());
}

void RecoveryLog::noteArrived(uint64_t number, bool keep_last) {
  if (number <= arrived_) return;
  arrived_ = number;
  lost_time_ = {};
  if (!tried_.empty()) tried_.erase(tried_.begin(), tried_.end() - (keep_last ? 1 : 0));
}

std::string RecoveryLog::attempts() const {
  std::string text;
  for (const std::string& attempt : tried_) text += (text.empty() ? "[" : " [") + attempt + "]";
  return text;
}

void RecoveryLog::step(Clock::time_point now, bool counts) {
  const Clock::duration step = now - std::exchange(last_step_, now);
  if (counts) addLostTime(step);
}

void RecoveryLog::addLostTime(Clock::duration time) { lost_time_ += std::min(time, Patience::kLongestStep); }

bool RecoveryLog::refusedTooOften(uint64_t arrived) {
  refusals_ = std::exchange(refused_at_, arrived) == arrived ? refusals_ + 1 : 1;
  return refusals_ > kMostRefusals;
}

}  // namespace railwise::net
