// Measures how busy the machine was with other work during a measurement. One thread.
#pragma once

#include <optional>
#include <string>

namespace railwise::cli {

// Shares of the machine's CPU time, from 0 to 1.
struct OthersUse {
  double processes = 0;   // processes that are not measured, and the kernel's work for them
  double hypervisor = 0;  // time in which the hypervisor ran something else than this virtual machine

  bool worthSaying() const;
  // For example "other processes had 37 % of its CPU time, the hypervisor 12 %".
  std::string text() const;
};

class MachineUse {
 public:
  // Measures from now on. `file` has the form of /proc/stat.
  explicit MachineUse(std::string file = "/proc/stat");

  // `own_seconds`: CPU time of everything that is measured, since the beginning. Null: too little time has
  // passed, or the file cannot be read.
  std::optional<OthersUse> since(double own_seconds) const;

 private:
  // Clock ticks since the machine started, summed over its CPUs.
  struct Ticks {
    double all = 0;
    double busy = 0;
    double stolen = 0;
  };
  std::optional<Ticks> read() const;

  std::string file_;
  std::optional<Ticks> begin_;
};

// CPU time of this process so far, and of the child processes that it has waited for.
double ownCpuSeconds();

// The load average of the last minute. 0: it is not known.
double loadAverage();

// The number of CPUs that this process may use.
int usableCpus();

}  // namespace railwise::cli
