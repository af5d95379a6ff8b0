// This process's end of the pair test: its RDMA devices, opened, and what there is to know of them. One
// thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/outcome.h"
#include "base/settings/config.h"
#include "doctor/pair/measuring/facts.h"
#include "doctor/pair/measuring/gpu_memory.h"
#include "sysfs/file_tree.h"
#include "verbs/gid.h"
#include "verbs/handles.h"
#include "verbs/port.h"

namespace railwise::doctor::pair {

// One port, ready for queue pairs. Context and protection domain are null if the device cannot be opened.
struct OpenNic {
  verbs::Context context;
  verbs::Pd pd;
  verbs::Port port;
  std::vector<verbs::Gid> gids;  // those of NicFacts::gids
  int numa = -1;                 // node of the NIC; -1: not known
  std::string gpu;               // with --gpu: the nearest one, "0000:1b:00.0"; "": memory of the host
  GpuDriver* driver = nullptr;   // of `gpu`
};

struct OpenEnd {
  EndFacts facts;
  std::unique_ptr<GpuDriver> driver;  // null: the data lie in memory of the host
  std::vector<OpenNic> nics;          // in the order of facts.nics
  Config config;
};

// The settings for measuring: as in a job, but a write that nobody acknowledges fails within a second or two
// instead of half a minute.
Config measuringConfig(Config config);

// Opens the ports that `config.ib_hca` chooses. `tree`: the /sys that describes the devices. verbs::load()
// has been called with `config`. A device that cannot be opened is a fact, not an error; so is a machine
// without devices (EndFacts::failure).
// `gpu`: the data shall lie in the memory of GPUs; if they cannot, EndFacts::hidden says why.
OpenEnd openEnd(Config config, const sysfs::FileTree& tree, std::string host, bool gpu = false);

}  // namespace railwise::doctor::pair
