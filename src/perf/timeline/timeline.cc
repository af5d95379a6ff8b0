#include "perf/timeline/timeline.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/text/printable.h"
#include "base/text/words.h"
#include "cli/options/message.h"
#include "perf/results/record.h"
#include "softdev/engine/attachment.h"
#include "topo/outputs/parts.h"

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

// Lengths are CSS pixels.
struct PlotFrame {
  double width, height;
  double left, right, top, bottom;  // margins around the plot itself
};

constexpr double kPlotHeight = 260;
constexpr PlotFrame kMargins = {920, 0, 76, 24, 64, 52};
constexpr double kMarkLine = 18;
constexpr std::size_t kMostMarks = 30;
constexpr int kTicks = 6;
// The line of means takes this share of the whole time together, and some samples at least.
constexpr std::size_t kWindows = 40;
constexpr std::size_t kLeastWindow = 5;

// The distance between ticks: about `most` / kTicks, rounded to 1, 2 or 5 times a power of ten.
double tickStep(double most) {
  const double rough = most / kTicks;
  const double decade = std::pow(10, std::floor(std::log10(rough)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (step * decade >= rough) return step * decade;
  }
  return 10 * decade;
}

// `style` is a class of topo::svgStyle(). `anchor` is start, middle or end.
std::string plotText(const char* style, const char* anchor, double x, double y, const std::string& words) {
  return textOf("<text class=\"%s\" style=\"text-anchor:%s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", style,
                anchor, x, y, escapeXml(words).c_str());
}

// The beginning of an SVG file, with a title and a subtitle. The caller ends the file with "</svg>\n".
std::string plotBegin(const PlotFrame& frame, const std::string& title, const std::string& subtitle) {
  return textOf(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"rw\" viewBox=\"0 0 %.0f %.0f\" "
             "width=\"%.0f\" height=\"%.0f\" role=\"img\" aria-label=\"%s\">\n",
             frame.width, frame.height, frame.width, frame.height, escapeXml(title).c_str()) +
         "<style>" + std::string(topo::svgStyle()) + "</style>\n" +
         "<rect width=\"100%\" height=\"100%\" fill=\"var(--bg)\"/>\n" +
         plotText("head", "start", frame.left, 26, title) +
         plotText("sub", "start", frame.left, 44, subtitle);
}

class TimelinePlot {
 public:
  TimelinePlot(const std::string& title, const Timeline& timeline)
      : title_(title), timeline_(timeline), frame_(kMargins) {
    marks_ = std::min(timeline.marks.size(), kMostMarks);
    const std::size_t lines = marks_ + (marks_ < timeline.marks.size() ? 1 : 0) + timeline.notes.size();
    frame_.height = kMargins.top + kPlotHeight + kMargins.bottom + kMarkLine * static_cast<double>(lines);
    base_ = kMargins.top + kPlotHeight;
    for (std::size_t i = 1; i < timeline.samples.size(); ++i) top_ = std::max(top_, rate(i));
    if (!timeline.samples.empty()) {
      first_ms_ = timeline.samples.front().ms;
      last_ms_ = timeline.samples.back().ms;
    }
    for (const Timeline::Mark& mark : timeline.marks) {
      first_ms_ = std::min(first_ms_, mark.ms);
      last_ms_ = std::max(last_ms_, mark.ms);
    }
    if (top_ <= 0) top_ = 1;
    if (last_ms_ <= first_ms_) last_ms_ = first_ms_ + 1;
  }

  std::string draw() {
    svg_ = plotBegin(frame_, "Throughput of all ranks", title_);
    addAxes();
    addCurve();
    addMeans();
    addMarks();
    for (const std::string& note : timeline_.notes) addLine(note);
    return svg_ + "</svg>\n";
  }

 private:
  // GB/s between sample i and the previous sample.
  double rate(std::size_t i) const {
    const Timeline::Sample& before = timeline_.samples[i - 1];
    const Timeline::Sample& after = timeline_.samples[i];
    if (after.ms <= before.ms) return 0;
    return static_cast<double>(after.bytes - before.bytes) / 1e6 / (after.ms - before.ms);
  }
  double x(double ms) const {
    return kMargins.left +
           (ms - first_ms_) / (last_ms_ - first_ms_) * (frame_.width - kMargins.left - kMargins.right);
  }
  double y(double gigabytes) const { return base_ - gigabytes / top_ * kPlotHeight; }

  void addAxes() {
    const double step = tickStep(top_);
    for (double at = 0; at <= top_; at += step) {
      svg_ += textOf("<path class=\"frame\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", kMargins.left, y(at),
                     frame_.width - kMargins.right, y(at));
      svg_ += plotText("small", "end", kMargins.left - 8, y(at) + 4, textOf("%g GB/s", at));
    }
    const double ms_step = tickStep(last_ms_ - first_ms_);
    for (double at = 0; at <= last_ms_ - first_ms_; at += ms_step)
      svg_ += plotText("small", "middle", x(first_ms_ + at), base_ + 18, textOf("%g ms", at));
  }

  void addCurve() {
    std::string path;
    for (std::size_t i = 1; i < timeline_.samples.size(); ++i)
      path += textOf("%c%.1f %.1fH%.1f", path.empty() ? 'M' : 'L', x(timeline_.samples[i - 1].ms), y(rate(i)),
                     x(timeline_.samples[i].ms));
    // With a line of means, single samples stay behind it.
    const char* const style = hasMeans() ? "stroke-width:1;stroke-opacity:.35" : "stroke-width:1.5";
    if (!path.empty())
      svg_ += textOf("<path style=\"fill:none;%s;stroke:var(--pick)\" d=\"", style) + path + "\"/>\n";
  }

  std::size_t window() const { return std::max(kLeastWindow, timeline_.samples.size() / kWindows) | 1; }
  bool hasMeans() const { return timeline_.samples.size() > 2 * window(); }

  // Levels are hard to see among samples that jump: the mean around each sample shows them.
  void addMeans() {
    if (!hasMeans()) return;
    const std::vector<Timeline::Sample>& samples = timeline_.samples;
    const std::size_t half = window() / 2;
    std::string path;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const Timeline::Sample& from = samples[i < half ? 0 : i - half];
      const Timeline::Sample& to = samples[std::min(samples.size() - 1, i + half)];
      const double rate =
          to.ms > from.ms ? static_cast<double>(to.bytes - from.bytes) / 1e6 / (to.ms - from.ms) : 0;
      path += textOf("%c%.1f %.1f", path.empty() ? 'M' : 'L', x(samples[i].ms), y(rate));
    }
    svg_ += "<path style=\"fill:none;stroke-width:2;stroke:var(--pick)\" d=\"" + path + "\"/>\n";
    const double ms =
        (last_ms_ - first_ms_) / static_cast<double>(samples.size()) * static_cast<double>(window());
    svg_ += plotText("small", "end", frame_.width - kMargins.right, 44, textOf("thick: mean of %.0f ms", ms));
  }

  void addMarks() {
    for (std::size_t i = 0; i < marks_; ++i) {
      const Timeline::Mark& mark = timeline_.marks[i];
      const std::string number = std::to_string(i + 1);
      svg_ += textOf("<path style=\"stroke:var(--bad);stroke-dasharray:4 3\" d=\"M%.1f %.1fV%.1f\"><title>%s",
                     x(mark.ms), kMargins.top - 2, base_, escapeXml(mark.words).c_str()) +
              "</title></path>\n";
      svg_ += plotText("small", "middle", x(mark.ms), kMargins.top - 6, number);
      addLine(textOf("%s: %.0f ms  ", number.c_str(), mark.ms - first_ms_) + mark.words);
    }
    if (marks_ < timeline_.marks.size()) addLine(textOf("and %zu more", timeline_.marks.size() - marks_));
  }

  // A line of text below the plot.
  void addLine(const std::string& words) {
    svg_ += plotText("small", "start", kMargins.left, base_ + 42 + kMarkLine * lines_++, words);
  }

  const std::string& title_;
  const Timeline& timeline_;
  PlotFrame frame_;
  std::size_t marks_ = 0;
  int lines_ = 0;    // so far, below the plot
  double base_ = 0;  // y of zero throughput
  double top_ = 0;   // GB/s at the top of the plot
  double first_ms_ = 0;
  double last_ms_ = 0;
  std::string svg_;
};

}  // namespace

double longestPauseMs(const Timeline& timeline) {
  double longest = 0;
  const Timeline::Sample* since = nullptr;  // the first sample with the current number of bytes
  for (const Timeline::Sample& sample : timeline.samples) {
    if (since == nullptr || sample.bytes != since->bytes) since = &sample;
    const bool last = since->bytes == timeline.samples.back().bytes;
    const bool between = since->bytes != 0 && (!last || timeline.failed);
    if (between) longest = std::max(longest, sample.ms - since->ms);
  }
  return longest;
}

// GB/s between two samples: the median of the tenths of a second in which something arrived.
static double levelOf(std::vector<Timeline::Sample>::const_iterator from,
                      std::vector<Timeline::Sample>::const_iterator to) {
  constexpr double kWindowMs = 100;
  std::vector<double> rates;
  for (auto at = from, begin = from; at != to; begin = at) {
    while (at != to && at->ms - begin->ms < kWindowMs) ++at;
    if (at->ms - begin->ms < kWindowMs && !rates.empty()) break;
    if (at->bytes == begin->bytes) continue;
    rates.push_back(static_cast<double>(at->bytes - begin->bytes) / 1e6 / std::max(at->ms - begin->ms, 1.0));
  }
  if (rates.empty()) return 0;
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
  std::nth_element(rates.begin(), middle, rates.end());
  return *middle;
}

std::string levelsText(const Timeline& timeline) {
  constexpr double kOneMarkMs = 100;
  constexpr std::size_t kMostLevels = 5;
  const auto moves = [&](const Timeline::Sample& sample) { return sample.bytes > 0; };
  const auto first = std::ranges::find_if(timeline.samples, moves);
  if (first == timeline.samples.end()) return "";
  const uint64_t all = timeline.samples.back().bytes;
  const auto last =
      std::ranges::find_if(timeline.samples, [&](const auto& each) { return each.bytes == all; });
  std::string text;
  auto from = first;
  // As on the axis of the picture.
  const double begun_ms =
      std::min(timeline.samples.front().ms,
               timeline.marks.empty() ? timeline.samples.front().ms : timeline.marks.front().ms);
  const Timeline::Mark* since = nullptr;
  const auto endLevel = [&](std::vector<Timeline::Sample>::const_iterator to) {
    const double rate = levelOf(from, to);
    text += since == nullptr
                ? textOf("%.3g GB/s", rate)
                : textOf(", %.3g from %.0f ms on (%s)", rate, since->ms - begun_ms, since->words.c_str());
    from = to;
  };
  std::size_t levels = 1;
  for (const Timeline::Mark& mark : timeline.marks) {
    if (mark.ms <= first->ms || mark.ms >= last->ms || levels == kMostLevels) continue;
    if (since != nullptr && mark.ms - since->ms < kOneMarkMs) continue;
    endLevel(std::ranges::find_if(timeline.samples, [&](const auto& each) { return each.ms >= mark.ms; }));
    since = &mark;
    ++levels;
  }
  if (since == nullptr) return "";
  endLevel(last);
  return text;
}

std::string drawTimeline(const std::string& title, const Timeline& timeline) {
  return TimelinePlot(title, timeline).draw();
}

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
                             const std::vector<FaultMark>& marks, bool failed, const std::string& foot) {
  take(received);
  const std::chrono::duration<double, std::milli> begun = begun_wall_.time_since_epoch();
  for (const FaultMark& mark : marks) {
    const double ms = static_cast<double>(mark.realtime_ns) / 1e6 - begun.count();
    if (ms >= 0) timeline_.marks.push_back({ms, mark.words});
  }
  std::sort(timeline_.marks.begin(), timeline_.marks.end(),
            [](const Timeline::Mark& a, const Timeline::Mark& b) { return a.ms < b.ms; });
  timeline_.failed = failed;
  for (const std::string& line : linesOf(foot)) timeline_.notes.push_back(line.substr(line.find(' ') + 1));
  levels_ = levelsText(timeline_);
  if (!levels_.empty()) timeline_.notes.push_back("throughput of all ranks: " + levels_);
  timeline_.notes.emplace_back("Traffic also pauses between sizes and while results are verified.");
  std::string title = run + textOf(": bytes received per %d ms", static_cast<int>(kSamplePeriod.count()));
  title += textOf("; longest pause %.0f ms", pauseMs());
  if (failed) title += "; the run failed";
  return writeDocument(file, drawTimeline(title, timeline_));
}

}  // namespace railwise::cli
