#include "net/paths/recovery_log.h"

#include <algorithm>
#include <utility>

#include "base/few_lines.h"
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

bool logLimited(const std::string& line) {
  static FewLines lines;
  const int nth = lines.take();
  if (nth <= FewLines::kWarnings) {
    RAILWISE_WARN("%s", line.c_str());
    return true;
  }
  if (nth == FewLines::kWarnings + 1)
    RAILWISE_WARN(
        "more connections of this process lose a path or go back: NCCL_DEBUG=INFO names each, `railwise top` "
        "counts them");
  RAILWISE_INFO(log::kNet, "%s", line.c_str());
  return false;
}

void SearchLog::lost(const std::string& title, const std::string& what) {
  // A path that is lost before messages went over it belongs to the search that has found it.
  const bool still = told_ != Told::kNothing;
  const bool warned = logLimited(title + ": " + what +
                                 (still ? "; still looking for another path" : "; looking for another path"));
  // A user who has read that the search began also reads that it has ended.
  if (!still || warned) told_ = warned ? Told::kWarning : Told::kInformation;
}

bool SearchLog::end(const std::string& title, std::string_view how) {
  const Told told = std::exchange(told_, Told::kNothing);
  if (told == Told::kNothing) return false;
  const std::string line = title + " " + std::string(how);
  if (told == Told::kWarning) RAILWISE_WARN("%s", line.c_str());
  else RAILWISE_INFO(log::kNet, "%s", line.c_str());
  return true;
}

}  // namespace railwise::net
