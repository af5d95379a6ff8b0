// A job on software devices whose port fails in the middle, watched from its fabric as any tool can watch it.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/process.h"

namespace railwise::cli {

// Throughput over time as blocks of text, at most 80 columns wide. Pure.

// One line of the chart: a value for each moment, all of them equally far apart.
struct Curve {
  std::string name;  // at most kChartNameWidth characters are shown
  std::vector<double> gbits;
};

// What happened at a moment.
struct ChartMark {
  double seconds = 0;
  std::string text;
};

inline constexpr int kChartNameWidth = 8;
inline constexpr int kChartColumns = 60;

// Draws the curves below one another, in one scale, with the time and the marks below. The first curve is
// `kTotalRows` high, the others one row. `unicode`: blocks in eighths of a row; otherwise '#' in whole rows.
// `top_gbits`: the value at the top, so that several charts have one scale; 0: the highest value.
std::string drawChart(const std::vector<Curve>& curves, const std::vector<ChartMark>& marks, double seconds,
                      bool unicode, double top_gbits = 0);

// The longest time without a value above a tenth of the median, between the first and the last value above 0.
double longestPauseSeconds(const std::vector<double>& values, double seconds_of_value);

// What the ports of the job can carry together.
inline constexpr double kPortsGbits = 5;

struct FailingPortPlan {
  std::string plugin;  // "": Railwise's own
  int seconds = 6;     // of traffic; the port is down in the second third of them
  std::string fabric;  // a name that no other job has
};

struct FailingPortRun {
  bool survived = false;      // the port went down, and the job ended with all its data right
  int exit_status = 0;        // of the job
  std::string output;         // of the job
  double seconds = 0;         // from the first byte to the end of the drawing
  double pause_seconds = 0;   // the longest pause
  double least_gbits = 0;     // mean while the port was down
  double usual_gbits = 0;     // mean before
  std::vector<Curve> curves;  // the sum, then each device
  std::vector<ChartMark> marks;
};

// Lines that a user can paste into a shell: the job, and its port down and up again.
std::vector<std::string> failingPortCommands(const FailingPortPlan& plan);
FailingPortRun runFailingPort(const FailingPortPlan& plan);

// A command that the demo runs. One thread.

class DemoChild {
 public:
  using Variables = std::vector<std::pair<std::string, std::string>>;

  // `words`: arguments of this executable. The output of the command goes where ours goes, or is kept.
  enum class Output { kShown, kKept };
  DemoChild(const std::vector<std::string>& words, const Variables& variables, Output output);
  ~DemoChild() { end(); }

  bool running() { return process_.ok() && process_->running(); }
  // Waits for the end of the command. Returns its exit status; 128 and more: a signal ended it.
  int wait() { return process_.ok() ? process_->wait().shellStatus() : Process::kNoProgram; }
  void end();                  // asks the command to end, and waits
  std::string output() const;  // what it has written so far, if that is kept

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> kept_;
  Outcome<Process> process_;
};

}  // namespace railwise::cli
