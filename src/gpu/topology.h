// The GPUs of a machine as their vendors' libraries describe them: what each GPU is, and which links it has.
// The same structs hold NVIDIA's and AMD's GPUs. Plain values, any thread.
//
// Units: memory in bytes, bandwidths in GB/s (10^9 bytes per second) in one direction.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace railwise::gpu {

enum class Vendor : uint8_t { kNvidia, kAmd };
const char* vendorName(Vendor vendor);  // "NVIDIA", "AMD"

enum class LinkKind : uint8_t {
  kNvlink,          // GPU to GPU
  kNvswitch,        // GPU to a switch, through which it reaches every GPU of the switch
  kInfinityFabric,  // AMD: between the dies of one package
  kXgmi,            // AMD: GPU to GPU
  kPcie,
};
const char* linkKindName(LinkKind kind);  // "NVLink", "NVSwitch", "InfinityFabric", "xGMI", "PCIe"

// How far a link is, as far as the vendor's library tells.
enum class LatencyClass : uint8_t { kPackage, kDirect, kSwitched, kHost };
const char* latencyClassName(LatencyClass latency);  // "package", "direct", "switched", "host"

struct Link {
  int from = -1;         // index of a device
  int to = -1;           // index of a device; -1: an NVSwitch, or a device that this process does not see
  std::string to_busid;  // PCI address of the other end; empty: unknown
  LinkKind kind = LinkKind::kPcie;
  LatencyClass latency = LatencyClass::kHost;
  int width = 0;        // active links between the two
  int version = 0;      // of NVLink; 0: unknown
  double gb_per_s = 0;  // all active links together; 0: the library does not tell

  bool operator==(const Link&) const = default;
};

// What the vendor's library reports as wrong. An empty optional: the library does not tell.
struct Health {
  std::optional<uint64_t> ecc_uncorrected;  // errors since the driver was loaded
  std::optional<uint64_t> link_errors;      // replays, recoveries and CRC errors over all links
  std::optional<bool> throttled;            // clocks are below what the load asks for
  std::string throttle_reason;              // "thermal", "power" ...; empty: none

  bool operator==(const Health&) const = default;
};

struct Device {
  int index = -1;  // in the list
  Vendor vendor = Vendor::kNvidia;
  int vendor_index = -1;  // in the vendor's library
  std::string model;      // "NVIDIA H100 80GB HBM3"
  uint64_t memory_bytes = 0;
  std::optional<uint64_t> memory_used_bytes;
  std::string architecture;  // "9.0" (CUDA compute capability) or "gfx942"; empty: unknown
  int sm = 0;                // compute capability times ten; 0: not NVIDIA's
  std::string busid;         // "0000:0f:00.0"
  std::string uuid;
  int numa = -1;         // -1: unknown
  std::string driver;    // version of the driver
  std::string firmware;  // VBIOS, or AMD's firmware version; empty: unknown

  // A MIG instance, or a partition of an AMD GPU, is a device of its own.
  bool partitioned = false;
  std::string partition;  // "MIG 3g.40gb", "CPX"; empty: the whole GPU
  double share = 1;       // of the GPU's compute units
  int parent = -1;        // index of the whole GPU in the list; -1: none

  // The NVLink domain over hosts (GB200 NVL72); empty: none.
  std::string fabric_cluster;
  int fabric_clique = -1;
  std::string fabric_state;  // "completed", "in progress", "not started"; empty: no fabric

  std::optional<int> utilisation_percent;
  std::optional<int> processes;  // that have memory on the GPU
  Health health;

  bool operator==(const Device&) const = default;
};

// Whether two devices reach each other's memory, in the vendor's own words.
struct PeerStatus {
  int from = -1;
  int to = -1;
  bool allowed = false;
  std::string reason;  // "chipset not supported" ...; empty when allowed

  bool operator==(const PeerStatus&) const = default;
};

struct GpuTopology {
  std::vector<Device> devices;
  std::vector<Link> links;  // each link once for each direction
  std::vector<PeerStatus> peers;
  std::vector<std::string> remarks;  // what could not be asked, for people
};

}  // namespace railwise::gpu
