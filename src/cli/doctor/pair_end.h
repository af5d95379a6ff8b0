// This process's end of `railwise doctor --pair`: its devices, the /sys that describes them, and what the
// model says of the machine.
#pragma once

#include <memory>
#include <string>

#include "doctor/pair/measuring/open_end.h"

namespace railwise::cli {

struct PairEndOptions {
  std::string nics;        // NCCL_IB_HCA's form; "": NCCL_IB_HCA
  bool gpu = false;        // the data lie in memory of GPUs
  bool takes_part = true;  // false: only coordinate
};

// Never fails: what is wrong with the devices is in the facts. Loads the verbs library. Main thread, before
// other threads start: it may start processes that ask for the GPUs.
doctor::pair::OpenEnd openPairEnd(const PairEndOptions& options);

// RAILWISE_HOST, else the name of this computer.
std::string nameOfThisHost();

}  // namespace railwise::cli
