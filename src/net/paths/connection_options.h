// What connect and accept need to know to build their end of a connection.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings/config.h"
#include "net/device/device.h"
#include "net/limits.h"

namespace railwise::net {

class EventWatcher;
class Resumer;

struct ConnectionOptions {
  const Config& config;
  const std::string& local_host;
  int traffic_class;    // the communicator's; negative: undefined
  int queue_pairs = 1;  // per lane
  // What each rail can carry, Mb/s: the speed of the rail's port, or less if the path to the GPU in use is
  // slower.
  std::array<int, kMaxRails> rail_mbps = {};
  // Standby rails, which the connection may use when it has lost its own rails. The best one comes first.
  std::vector<Rail> standbys = {};
  int devices = 0;                   // physical devices of the process
  uint64_t communicator = 0;         // NCCL's hash of the communicator; 0: not known
  std::string_view gpu_driver = {};  // version of this machine's GPU driver; the process's Net owns the text
  EventWatcher* watcher = nullptr;   // reads the side channel; null: only the connection's thread does
  Resumer* resumer = nullptr;        // resumes the side channel; null: nobody does
  uint32_t user_word = 0;            // EndInfo::user_word of this end; one-sided: the rank
};

}  // namespace railwise::net
