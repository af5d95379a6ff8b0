#include "perf/timeline/recorder.h"

#include <algorithm>
#include <chrono>

#include "cli/options/message.h"
#include "perf/results/document.h"
#include "softdev/engine/attachment.h"

namespace railwise::cli {
namespace {

// Hits of one rule within this time make one mark, even if the rule strikes a thousand sends.
constexpr uint64_t kSameMarkNs = 200'000'000;
constexpr std::size_t kMostKeptMarks = 1000;

uint64_t wallClockNs() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

std::string markWords(const softdev::FaultLogEntry& entry) {
  std::string words = std::string(entry.host) + "/" + entry.device + " " + entry.action;
  return entry.rule == 0 ? words : words + textOf(" (rule %u)", entry.rule);
}

constexpr std::chrono::milliseconds kSamplePeriod{10};

}  // namespace

FaultLog::~FaultLog() {
  if (fabric_ != nullptr) softdev::detachFabric(fabric_);
}

bool FaultLog::attach() {
  if (fabric_ != nullptr) return true;
  const auto joined = softdev::joinFabric(name_);
  if (joined.ok()) fabric_ = *joined;
  return fabric_ != nullptr;
}

std::vector<softdev::FaultLogEntry> FaultLog::read() {
  std::vector<softdev::FaultLogEntry> entries = softdev::readFaultLog(*fabric_, seen_);
  for (const softdev::FaultLogEntry& entry : entries) {
    seen_ = entry.sequence;
    std::string words = markWords(entry);
    const auto same = std::find_if(marks_.rbegin(), marks_.rend(),
                                   [&](const FaultMark& mark) { return mark.words == words; });
    if (same != marks_.rend() && entry.time_ns - same->realtime_ns < kSameMarkNs) continue;
    if (marks_.size() < kMostKeptMarks) marks_.push_back({entry.time_ns, std::move(words)});
  }
  return entries;
}

void FaultLog::add(std::string words) { marks_.push_back({wallClockNs(), std::move(words)}); }

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
