// A job on software devices whose port fails in the middle, watched from its fabric as any tool can watch it.
#pragma once

#include <string>
#include <vector>

#include "cli/demo/chart.h"

namespace railwise::cli {

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

}  // namespace railwise::cli
