#include "cli/demo/failing_port.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/clock.h"
#include "cli/options/message.h"
#include "cli/plugin/plugin_loader.h"
#include "softdev/control/control.h"
#include "softdev/engine/attachment.h"

namespace railwise::cli {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);

Outcome<Process> startSelf(const std::vector<std::string>& words, const DemoChild::Variables& variables,
                           std::FILE* kept) {
  ProcessPlan plan;
  plan.words = {executablePath()};
  plan.words.insert(plan.words.end(), words.begin(), words.end());
  plan.variables = variables;
  if (kept != nullptr) plan.output = plan.error = fileno(kept);
  std::fflush(stdout);
  return Process::start(plan);
}

constexpr int kTotalRows = 4;
constexpr int kMaxMarks = 6;

// The mean of the values that fall into each column.
std::vector<double> columnsOf(const std::vector<double>& values) {
  const auto columns = std::min<std::size_t>(values.size(), kChartColumns);
  std::vector<double> means;
  for (std::size_t i = 0; i < columns; ++i) {
    const std::size_t begin = i * values.size() / columns;
    const std::size_t end = (i + 1) * values.size() / columns;
    double sum = 0;
    for (std::size_t at = begin; at < end; ++at) sum += values[at];
    means.push_back(sum / static_cast<double>(end - begin));
  }
  return means;
}

// What a row shows of a value that is `height` rows high; row 0 is the lowest.
const char* cell(double height, int row, bool unicode) {
  static constexpr std::array<const char*, 9> kEighths = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const double part = std::clamp(height - row, 0.0, 1.0);
  if (!unicode) return part >= 0.5 ? "#" : row == 0 && height > 0.05 ? "." : " ";
  auto eighths = static_cast<std::size_t>(std::lround(part * 8));
  if (row == 0 && height > 0 && eighths == 0) eighths = 1;  // little is not nothing
  return kEighths.at(eighths);
}

std::string rowsOf(const Curve& curve, int rows, double top, bool unicode) {
  const std::vector<double> values = columnsOf(curve.gbits);
  std::string text;
  for (int row = rows - 1; row >= 0; --row) {
    const bool labelled = row == rows - 1;
    text += textOf("%-*.*s", kChartNameWidth, kChartNameWidth, labelled ? curve.name.c_str() : "") + " |";
    for (const double value : values) text += cell(value / top * rows, row, unicode);
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  return text;
}

std::string axis(double seconds, const std::vector<ChartMark>& marks) {
  std::string line(kChartColumns, '-');
  std::string times(kChartColumns + 6, ' ');
  const auto columnOf = [&](double at) {
    return std::clamp(static_cast<int>(at / seconds * kChartColumns), 0, kChartColumns - 1);
  };
  const int steps = std::max(1, static_cast<int>(seconds / 6 + 0.5));
  for (int at = 0; at <= static_cast<int>(seconds); at += steps) {
    const std::string label = std::to_string(at) + " s";
    const int column = at == 0 ? 0 : std::min(static_cast<int>(at / seconds * kChartColumns), kChartColumns);
    times.replace(static_cast<std::size_t>(column), label.size(), label);
  }
  for (std::size_t i = 0; i < marks.size() && i < kMaxMarks; ++i)
    line[static_cast<std::size_t>(columnOf(marks[i].seconds))] = static_cast<char>('1' + i);
  const std::string margin(kChartNameWidth + 1, ' ');
  times.erase(times.find_last_not_of(' ') + 1);
  std::string text = margin + "+" + line + "\n" + margin + " " + times + "\n";
  for (std::size_t i = 0; i < marks.size() && i < kMaxMarks; ++i)
    text += margin + textOf(" %zu: %.1f s  %s\n", i + 1, marks[i].seconds, marks[i].text.c_str());
  return text;
}

// Slow ports, so that the curve shows the ports and not the processors of this machine. Together they carry
// kPortsGbits.
constexpr const char* kDevice = "software:link=ib,count=2,speed=2500,pacing=on";
constexpr const char* kPort = "soft0";
constexpr double kSampleSeconds = 0.1;
constexpr auto kStartPatience = std::chrono::seconds(20);
constexpr auto kEndPatience =
    std::chrono::seconds(15);  // beyond the planned end, for a job that stands still

std::vector<std::string> wordsOf(const FailingPortPlan& plan) {
  std::vector<std::string> words = {"perf",     "sendrecv", "-b", "512K",
                                    "-e",       "512K",     "-D", std::to_string(plan.seconds),
                                    "--device", kDevice};
  if (!plan.plugin.empty()) words.insert(words.end(), {"--plugin", plan.plugin});
  return words;
}

// Attached to the fabric of the job. The counts are those of all processes.
class Watch {
 public:
  explicit Watch(softdev::Fabric& fabric) : fabric_(fabric) {}

  // Bytes that each device has been given to send.
  std::map<std::string, uint64_t> bytes() const {
    std::map<std::string, uint64_t> sums;
    for (const softdev::CountsRow& row : softdev::listCounts(fabric_, softdev::CountsBy::kPort))
      sums[row.device] += row.counts.bytes;
    return sums;
  }

  bool change(const char* to) const {
    const auto ports = softdev::findPorts(fabric_, kPort);
    if (!ports.ok()) return false;
    return std::ranges::all_of(
        *ports, [&](const softdev::PortInfo& port) { return softdev::changePort(fabric_, port, to).ok(); });
  }

 private:
  softdev::Fabric& fabric_;
};

double meanBetween(const std::vector<double>& values, double from, double to) {
  double sum = 0;
  int count = 0;
  for (auto i = static_cast<std::size_t>(from / kSampleSeconds + 1);
       i < values.size() && static_cast<double>(i + 1) * kSampleSeconds <= to; ++i, ++count)
    sum += values[i];
  return count > 0 ? sum / count : 0;
}

class FailingPort {
 public:
  FailingPort(const FailingPortPlan& plan, DemoChild& child) : plan_(plan), child_(child) {}

  FailingPortRun run() {
    if (softdev::Fabric* const fabric = waitForTraffic(); fabric != nullptr) {
      watch(Watch(*fabric));
      softdev::detachFabric(fabric);
    }
    if (child_.running()) {
      child_.end();
      run_.output = child_.output();
      run_.exit_status = -1;
      return std::move(run_);
    }
    run_.exit_status = child_.wait();
    run_.output = child_.output();
    run_.survived = run_.exit_status == 0 && !run_.marks.empty();
    return std::move(run_);
  }

 private:
  // Null: the job has ended, or does not begin.
  softdev::Fabric* waitForTraffic() {
    softdev::Fabric* fabric = nullptr;
    for (const Deadline deadline = Deadline::after(kStartPatience); child_.running() && !deadline.passed();
         usleep(static_cast<useconds_t>(kSampleSeconds * 1e6 / 4))) {
      if (fabric == nullptr) {
        const auto joined = softdev::joinFabric(plan_.fabric);
        if (joined.ok()) fabric = *joined;
      }
      if (fabric == nullptr) continue;
      uint64_t sum = 0;
      for (const auto& [device, bytes] : Watch(*fabric).bytes()) sum += bytes;
      constexpr uint64_t kTraffic = 1 << 20;  // more than a handshake
      if (sum >= kTraffic) return fabric;
    }
    if (fabric != nullptr) softdev::detachFabric(fabric);
    return nullptr;
  }

  void watch(const Watch& watch) {
    const auto begun = Clock::now();
    const double third = plan_.seconds / 3.0;
    const Deadline late = Deadline::after(std::chrono::seconds(plan_.seconds) + kEndPatience);
    std::map<std::string, uint64_t> before = watch.bytes();
    std::map<std::string, std::vector<double>> gbits;
    std::vector<double> sums;
    auto last = begun;
    for (int sample = 1; child_.running() && !late.passed(); ++sample) {
      const auto due = begun + std::chrono::duration_cast<Clock::duration>(
                                   std::chrono::duration<double>(sample * kSampleSeconds));
      while (Clock::now() < due) usleep(1000);
      const auto now = Clock::now();
      const auto after = watch.bytes();
      if (!child_.running()) break;
      const double seconds = std::chrono::duration<double>(now - last).count();
      last = now;
      double sum = 0;
      for (const auto& [device, bytes] : after) {
        // A queue pair that was destroyed with its process takes its counts along.
        const uint64_t more = bytes >= before[device] ? bytes - before[device] : 0;
        gbits[device].resize(sums.size(), 0);
        gbits[device].push_back(static_cast<double>(more) * 8 / 1e9 / seconds);
        sum += gbits[device].back();
      }
      sums.push_back(sum);
      before = after;
      const double since = std::chrono::duration<double>(now - begun).count();
      run_.seconds = static_cast<double>(sums.size()) * kSampleSeconds;
      if (run_.marks.empty() && since >= third) mark(watch, "down", since);
      if (run_.marks.size() == 1 && since >= 2 * third) mark(watch, "up", since);
    }
    sum(sums, gbits);
  }

  void mark(const Watch& watch, const char* change, double seconds) {
    if (watch.change(change)) run_.marks.push_back({seconds, std::string("port of ") + kPort + " " + change});
  }

  void sum(const std::vector<double>& sums, const std::map<std::string, std::vector<double>>& gbits) {
    run_.curves.push_back({"all", sums});
    for (const auto& [device, values] : gbits) {
      run_.curves.push_back({device, values});
      run_.curves.back().gbits.resize(sums.size(), 0);
    }
    run_.pause_seconds = longestPauseSeconds(sums, kSampleSeconds);
    if (run_.marks.empty()) return;
    run_.usual_gbits = meanBetween(sums, 0, run_.marks[0].seconds);
    run_.least_gbits = meanBetween(sums, run_.marks[0].seconds,
                                   run_.marks.size() > 1 ? run_.marks[1].seconds : run_.seconds);
  }

  const FailingPortPlan& plan_;
  DemoChild& child_;
  FailingPortRun run_;
};

}  // namespace

std::string drawChart(const std::vector<Curve>& curves, const std::vector<ChartMark>& marks, double seconds,
                      bool unicode, double top_gbits) {
  double top = 0;
  for (const Curve& curve : curves) {
    for (const double value : columnsOf(curve.gbits)) top = std::max(top, value);
  }
  if (top <= 0 || seconds <= 0) return "  nothing was sent\n";
  if (top_gbits > 0) top = top_gbits;
  std::string text = textOf("%*s %.2g Gb/s at the top\n", kChartNameWidth, "", top);
  for (std::size_t i = 0; i < curves.size(); ++i)
    text += rowsOf(curves[i], i == 0 ? kTotalRows : 1, top, unicode);
  return text + axis(seconds, marks);
}

double longestPauseSeconds(const std::vector<double>& values, double seconds_of_value) {
  std::vector<double> sorted;
  for (const double value : values) {
    if (value > 0) sorted.push_back(value);
  }
  if (sorted.empty()) return 0;
  std::ranges::sort(sorted);
  const double little = sorted[sorted.size() / 2] / 10;
  std::size_t first = 0;
  while (values[first] <= 0) ++first;
  std::size_t end = values.size();
  while (values[end - 1] <= 0) --end;
  int longest = 0;
  int length = 0;
  for (std::size_t i = first; i < end; ++i) {
    length = values[i] <= little ? length + 1 : 0;
    longest = std::max(longest, length);
  }
  return longest * seconds_of_value;
}

std::vector<std::string> failingPortCommands(const FailingPortPlan& plan) {
  std::string job = "railwise";
  for (const std::string& word : wordsOf(plan)) job += " " + word;
  const std::string port = std::string("railwise device port ") + kPort;
  // The fabric has a name so that the second command finds the job's among those of other jobs; a job is up
  // after less than a second.
  return {"export RAILWISE_FABRIC=demo", job + " &",
          "sleep 2; " + port + " down; sleep 2; " + port + " up; wait; unset RAILWISE_FABRIC"};
}

FailingPortRun runFailingPort(const FailingPortPlan& plan) {
  DemoChild child(wordsOf(plan), {{"RAILWISE_FABRIC", plan.fabric}}, DemoChild::Output::kKept);
  return FailingPort(plan, child).run();
}

DemoChild::DemoChild(const std::vector<std::string>& words, const Variables& variables, Output output)
    : kept_(output == Output::kKept ? std::tmpfile() : nullptr),
      process_(startSelf(words, variables, kept_.get())) {}

void DemoChild::end() {
  if (process_.ok()) process_->end(kPatience);
}

std::string DemoChild::output() const {
  if (kept_ == nullptr) return "";
  std::string text;
  char buffer[4096];
  off_t at = 0;
  for (ssize_t length = 0; (length = pread(fileno(kept_.get()), buffer, sizeof buffer, at)) > 0; at += length)
    text.append(buffer, static_cast<std::size_t>(length));
  return text;
}

}  // namespace railwise::cli
