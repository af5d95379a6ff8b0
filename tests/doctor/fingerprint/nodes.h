// A node of a job, for the tests of railwise fingerprint.
#pragma once

#include "doctor/fingerprint/fingerprint.h"

namespace railwise::doctor::fingerprint::test {

inline Fingerprint makeNode() {
  return {.host = "node1",
          .railwise = "0.1.0",
          .kernel = "6.8.0-45-generic",
          .gpu_vendor = "NVIDIA",
          .gpus = {{"NVIDIA H100 80GB HBM3", 8}},
          .gpu_driver = "550.90.07",
          .gpu_firmware = {{"96.00.89.00.01", 8}},
          .cuda = "12.4.1",
          .rocm = "",
          .modules = {{"mlx5_core", "24.04-0.7.0"}, {"nvidia", "550.90.07"}},
          .nics = {{"MT4129", "MT_0000000838", "28.39.1002", 8}, {"MT4125", "", "22.39.1002", 1}},
          .rdma_core = "50.0"};
}

}  // namespace railwise::doctor::fingerprint::test
