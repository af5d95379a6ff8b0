// This process's end of `railwise doctor --pair`: its devices, the /sys that describes them, and what the
// model says of the machine.
#pragma once

#include <optional>
#include <string>

#include "doctor/pair/measuring/open_end.h"
#include "topo/machine/machine.h"

namespace railwise::cli {

struct PairEndOptions {
  std::string nics;        // NCCL_IB_HCA's form; "": NCCL_IB_HCA
  bool gpu = false;        // the data lie in memory of GPUs
  bool takes_part = true;  // false: only coordinate
};

struct PairEnd {
  doctor::pair::OpenEnd end;
  std::optional<topo::Machine> machine;  // none: the model cannot read it, or the end takes no part
};

// Never fails: what is wrong with the devices is in the facts. Loads the verbs library. Main thread, before
// other threads start: it may start processes that ask for the GPUs.
PairEnd openPairEnd(const PairEndOptions& options);

}  // namespace railwise::cli
