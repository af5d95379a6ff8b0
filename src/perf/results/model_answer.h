// What NCCL's model says of the hosts of a run. The command above asks the model; ranks only print it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace railwise::cli {

// all_reduce on equal hosts with GPUs.
struct ModelAnswer {
  std::string release;    // whose model: "2.30.7"
  int hosts = 0;          // that the answer is for
  int gpus = 0;           // of a host
  double gbytes = 0;      // GB/s of the bus that large messages approach
  std::string algorithm;  // "NVLSTree"
  std::string limit;      // what bounds it, in a sentence
  // Rings alone: GB/s that all channels together take of the NICs, and the names of these NICs.
  double ring_network = 0;
  std::vector<std::string> ring_nics;
};

// Of as many hosts as this one. Null: this machine has no GPUs, or NCCL could not use them together.
using ModelOfHosts = std::function<std::optional<ModelAnswer>(int hosts)>;

}  // namespace railwise::cli
