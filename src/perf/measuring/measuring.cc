#include "perf/measuring/measuring.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <utility>

#include "cli/options/message.h"

namespace railwise::cli {
namespace {

// A tick is 10 ms. With fewer ticks than this, the result would be too inaccurate.
constexpr double kFewestTicks = 50;
constexpr double kWorthSaying = 0.05;

double secondsOf(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

double cpuSecondsOf(int who) {
  rusage usage{};
  getrusage(who, &usage);
  return secondsOf(usage.ru_utime) + secondsOf(usage.ru_stime);
}

}  // namespace

bool OthersUse::worthSaying() const { return processes >= kWorthSaying || hypervisor >= kWorthSaying; }

std::string OthersUse::text() const {
  return textOf("other processes had %.0f %% of its CPU time, the hypervisor %.0f %%", processes * 100,
                hypervisor * 100);
}

MachineUse::MachineUse(std::string file) : file_(std::move(file)), begin_(read()) {}

// The fields are "cpu user nice system idle iowait irq softirq steal ...", see proc_stat(5). The time of
// guests is included in user and nice.
std::optional<MachineUse::Ticks> MachineUse::read() const {
  std::ifstream file(file_);
  std::string name;
  double user = 0;
  double nice = 0;
  double system = 0;
  double idle = 0;
  double iowait = 0;
  double irq = 0;
  double softirq = 0;
  Ticks ticks;
  if (!(file >> name >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> ticks.stolen) ||
      name != "cpu")
    return std::nullopt;
  ticks.busy = user + nice + system + irq + softirq;
  ticks.all = ticks.busy + idle + iowait + ticks.stolen;
  return ticks;
}

std::optional<OthersUse> MachineUse::since(double own_seconds) const {
  const std::optional<Ticks> now = read();
  if (!now || !begin_ || now->all - begin_->all < kFewestTicks) return std::nullopt;
  const double all = now->all - begin_->all;
  const double own = own_seconds * static_cast<double>(sysconf(_SC_CLK_TCK));
  OthersUse use;
  use.processes = std::clamp((now->busy - begin_->busy - own) / all, 0.0, 1.0);
  use.hypervisor = std::clamp((now->stolen - begin_->stolen) / all, 0.0, 1.0);
  return use;
}

double ownCpuSeconds() { return cpuSecondsOf(RUSAGE_SELF) + cpuSecondsOf(RUSAGE_CHILDREN); }

double loadAverage() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : 0;
}

int usableCpus() {
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof cpus, &cpus) != 0) return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return CPU_COUNT(&cpus);
}

Spread spreadOf(std::vector<double> samples) {
  Spread its;
  if (samples.empty()) return its;
  std::sort(samples.begin(), samples.end());
  const std::size_t count = samples.size();
  const auto percentile = [&](std::size_t percent) {
    return samples[std::min(count - 1, (count * percent + 99) / 100 - 1)];
  };
  its.samples = static_cast<int>(count);
  its.least = samples.front();
  its.quarter = percentile(25);
  its.median = percentile(50);
  its.three_quarters = percentile(75);
  its.p99 = percentile(99);
  its.largest = samples.back();
  its.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(count);
  double squares = 0;
  for (const double sample : samples) squares += (sample - its.mean) * (sample - its.mean);
  its.deviation = std::sqrt(squares / static_cast<double>(count));
  return its;
}

}  // namespace railwise::cli
