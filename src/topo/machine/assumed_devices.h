// The GPUs and NICs of a topology file that has no machine beside it: which GPU each rank would use, and
// which devices the network plugin would offer. NCCL asks the driver and the plugin; here the file answers,
// and for what it leaves out, assumptions. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "topo/document/xml.h"
#include "topo/machine/detection.h"
#include "topo/machine/fusion.h"

namespace railwise::topo {

// The GPU of one rank.
struct AssumedGpu {
  std::string busid;  // as the driver spells it: in lower case
  int dev = 0;        // the driver's number for it, where the file has none
  int rank = 0;
  std::string mlopart = "-1";
  const XmlNode* described = nullptr;  // its first <gpu> in the file; null: none
};

// An address as /sys and the driver spell it.
std::string inLowerCase(std::string busid);

// What the file does not say, and nobody else has said.
struct Assumed {
  bool gpudirect = false;  // whether GPUs and NICs offer it
  bool nic_speed = false;  // of one NIC or more
};

struct AssumedDevices {
  std::vector<AssumedGpu> gpus;  // one for each rank, in the order of the ranks
  std::vector<NetDevice> nets;   // in the plugin's order
  bool can_merge = true;         // the plugin has makeVDevice
  Assumed assumed;
  std::vector<std::string> remarks;
};

AssumedDevices assumeDevices(const XmlDocument& document, const Detection& detection);

}  // namespace railwise::topo
