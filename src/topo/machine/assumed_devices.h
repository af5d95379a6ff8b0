// The GPUs and NICs of a topology file that has no machine beside it: which GPU each rank would use, and
// which devices the network plugin would offer. NCCL asks the driver and the plugin; here the file answers,
// and for what it leaves out, assumptions. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "topo/document/xml.h"
#include "topo/machine/fusion.h"

namespace railwise::topo {

// What a running machine would tell and a topology file, or a bare /sys, does not. Plain values.

struct Detection {
  // Compute capability of each GPU (90 means 9.0); 0: not known, 80 is assumed and a remark says so.
  int gpu_sm = 0;
  int nvswitch_links = 0;  // number of NVLinks from each GPU to an NVSwitch
  int nic_speed = 400000;  // Mb/s of each NIC whose speed is not known
  // Accept files with more elements than NCCL reads, e.g. the dump of an NVLink domain.
  bool any_size = false;
  bool fuse_nics = false;  // fuse NICs as NCCL does, even in files that describe GPUs and nets
  // Where gpu_sm and nvswitch_links are 0 and nobody describes the GPUs: take what is known of them by their
  // PCI ids (known_machines.h). False: the file itself is shown.
  bool known_gpus = true;

  bool takesKnownGpus() const { return known_gpus && gpu_sm == 0 && nvswitch_links == 0; }
};

// The compute capability (times ten) that is assumed for GPUs if it is not known.
inline constexpr int kAssumedSm = 80;
// NCCL's name for the other end of an NVLink that a VM cannot see, and the device class that NCCL assumes for
// it.
inline constexpr const char* kHiddenTarget = "fffffff:ffff:ff";
inline constexpr const char* kNvswitchClass = "0x068000";

// The GPU of one rank.
struct AssumedGpu {
  std::string busid;  // as the driver spells it: in lower case
  int dev = 0;        // the driver's number for it, where the file has none
  int rank = 0;
  std::string mlopart = "-1";
  const XmlNode* described = nullptr;  // its first <gpu> in the file; null: none
};

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
