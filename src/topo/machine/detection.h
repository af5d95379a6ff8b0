// What a running machine would tell and a topology file, or a bare /sys, does not. Plain values.
#pragma once

namespace railwise::topo {

struct Detection {
  // Compute capability of each GPU (90 means 9.0); 0: not known, 80 is assumed and a remark says so.
  int gpu_sm = 0;
  int nvswitch_links = 0;  // number of NVLinks from each GPU to an NVSwitch
  int nic_speed = 400000;  // Mb/s of each NIC whose speed is not known
  // Accept files with more elements than NCCL reads, e.g. the dump of an NVLink domain.
  bool any_size = false;
  bool fuse_nics = false;  // fuse NICs as NCCL does, even in files that describe GPUs and nets
};

// The compute capability (times ten) that is assumed for GPUs if it is not known.
inline constexpr int kAssumedSm = 80;
// NCCL's name for the other end of an NVLink that a VM cannot see, and the device class that NCCL assumes for
// it.
inline constexpr const char* kHiddenTarget = "fffffff:ffff:ff";
inline constexpr const char* kNvswitchClass = "0x068000";

}  // namespace railwise::topo
