#include "perf/timeline/recorder.h"

#include <algorithm>
#include <chrono>

#include "cli/options/message.h"
#include "perf/results/document.h"

namespace railwise::cli {
namespace {

constexpr std::chrono::milliseconds kSamplePeriod{10};

}  // namespace

void TimelineRecorder::sample(uint64_t received) {
  if (Clock::now() >= next_) take(received);
}

void TimelineRecorder::take(uint64_t received) {
  const auto now = Clock::now();
  next_ = now + kSamplePeriod;
  timeline_.samples.push_back({std::chrono::duration<double, std::milli>(now - begun_at_).count(), received});
}

bool TimelineRecorder::write(const std::string& file, const std::string& run, uint64_t received,
                             const std::vector<FaultMark>& marks, bool failed) {
  take(received);
  const std::chrono::duration<double, std::milli> begun = begun_wall_.time_since_epoch();
  for (const FaultMark& mark : marks) {
    const double ms = static_cast<double>(mark.realtime_ns) / 1e6 - begun.count();
    if (ms >= 0) timeline_.marks.push_back({ms, mark.words});
  }
  std::sort(timeline_.marks.begin(), timeline_.marks.end(),
            [](const Timeline::Mark& a, const Timeline::Mark& b) { return a.ms < b.ms; });
  timeline_.failed = failed;
  const std::string title = run + textOf(": bytes received per %d ms; longest pause %.0f ms%s",
                                         static_cast<int>(kSamplePeriod.count()), longestPauseMs(timeline_),
                                         failed ? "; the run failed" : "");
  return writeDocument(file, drawTimeline(title, timeline_));
}

}  // namespace railwise::cli
