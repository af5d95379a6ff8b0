// This process's end of the pair test: its RDMA devices, opened, and what there is to know of them. One
// thread.
#pragma once

#include <string>
#include <vector>

#include "base/config.h"
#include "base/outcome.h"
#include "doctor/pair/facts.h"
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
};

struct OpenEnd {
  EndFacts facts;
  std::vector<OpenNic> nics;  // in the order of facts.nics
  Config config;
};

// The settings for measuring: as in a job, but a write that nobody acknowledges fails within a second or two
// instead of half a minute.
Config measuringConfig(Config config);

// Opens the ports that `config.ib_hca` chooses. `tree`: the /sys that describes the devices. verbs::load()
// has been called with `config`. A device that cannot be opened is a fact, not an error; so is a machine
// without devices (EndFacts::failure).
OpenEnd openEnd(Config config, const sysfs::FileTree& tree, std::string host);

}  // namespace railwise::doctor::pair
