// How busy this machine was with other things while something was measured. One thread.
#pragma once

#include <optional>
#include <string>

namespace railwise::tools {

// Of the machine's CPU time, 0 to 1.
struct OthersUse {
  double processes = 0;   // that are not measured, and the kernel for them
  double hypervisor = 0;  // that ran something else than this virtual machine

  bool worthSaying() const;
  // "other processes had 37 % of its CPU time, the hypervisor 12 %"
  std::string text() const;
};

class MachineUse {
 public:
  // From now on. `file`: as /proc/stat is.
  explicit MachineUse(std::string file = "/proc/stat");

  // `own_seconds`: CPU time since the beginning of all that is measured. Nothing: too little time has gone by
  // to tell, or the file cannot be read.
  std::optional<OthersUse> since(double own_seconds) const;

 private:
  // Clock ticks since the machine began, summed over its CPUs.
  struct Ticks {
    double all = 0;
    double busy = 0;
    double stolen = 0;
  };
  std::optional<Ticks> read() const;

  std::string file_;
  std::optional<Ticks> begin_;
};

// CPU time of this process so far, and of the children that it has waited for.
double ownCpuSeconds();

// CPUs that this process may use.
int usableCpus();

}  // namespace railwise::tools
