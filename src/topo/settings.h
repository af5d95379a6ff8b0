// What changes NCCL's answers besides the machine: the environment variables of NCCL's graph module, and the
// release of NCCL. Read once and passed as const; plain values.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/path_types.h"
#include "topo/nccl_release.h"

namespace railwise::topo {

// Path types in NCCL's order: a lower number is closer. They are also the levels of NCCL_P2P_LEVEL and
// NCCL_NET_GDR_LEVEL.
enum class PathType : unsigned char {
#define RAILWISE_VALUE(value, name, since, meaning) value,
  RAILWISE_PATH_TYPES(RAILWISE_VALUE)
#undef RAILWISE_VALUE
};
inline constexpr int kPathTypes = static_cast<int>(PathType::kDis) + 1;
const char* pathTypeName(PathType type);     // "LOC", "NVL", ...
const char* pathTypeMeaning(PathType type);  // a sentence for people who do not know NCCL's names

struct Settings {
  NcclVersion nccl = NcclVersion::kNewest;

  // One field per variable, with the value that NCCL uses when the variable is not set. kUnset: NCCL then
  // decides by a rule of its own.
  static constexpr int kUnset = -2;
  int p2p_level = kUnset;          // NCCL_P2P_LEVEL, NCCL_P2P_DISABLE=1: a PathType
  int net_gdr_level = kUnset;      // NCCL_NET_GDR_LEVEL: a PathType
  int net_gdr_read = -2;           // NCCL_NET_GDR_READ
  int net_gdr_c2c = 1;             // NCCL_NET_GDR_C2C
  int net_gdr_mlopart = 0;         // NCCL_NET_GDR_MLOPART
  int net_force_flush = 0;         // NCCL_NET_FORCE_FLUSH
  int net_disable_intra = kUnset;  // NCCL_NET_DISABLE_INTRA: 0 in NCCL, 1 in RCCL
  int nvb_disable = 0;             // NCCL_NVB_DISABLE
  int pxn_disable = 0;             // NCCL_PXN_DISABLE
  int pxn_c2c = 1;                 // NCCL_PXN_C2C
  int p2p_pxn_level = 2;           // NCCL_P2P_PXN_LEVEL
  int cross_nic = 2;               // NCCL_CROSS_NIC
  int shm_disable = 0;             // NCCL_SHM_DISABLE
  int topo_split_mlopart = 1;      // NCCL_TOPO_SPLIT_MLOPART
  int topo_scatter_start_net = 0;  // NCCL_TOPO_SCATTER_START_NET (since 2.31)
  int ignore_cpu_affinity = 0;     // NCCL_IGNORE_CPU_AFFINITY
  // These decide how two ranks are connected (transports/).
  int p2p_read_enable = kUnset;  // NCCL_P2P_READ_ENABLE
  int p2p_direct_disable = 0;    // NCCL_P2P_DIRECT_DISABLE
  int p2p_use_cuda_memcpy = 0;   // NCCL_P2P_USE_CUDA_MEMCPY
  int cumem_enable = kUnset;     // NCCL_CUMEM_ENABLE
  int mnnvl_enable = 2;          // NCCL_MNNVL_ENABLE; 2: where several hosts share an NVLink domain
  int nvls_enable = 2;           // NCCL_NVLS_ENABLE; 2: where the GPUs can do it
  int ignore_disabled_p2p = 0;   // NCCL_IGNORE_DISABLED_P2P
  enum class NetDevsPolicy {
    kAuto,
    kAll,
    kMax
  } netdevs_policy = NetDevsPolicy::kAuto;  // NCCL_NETDEVS_POLICY
  int netdevs_max = -1;
  PathType net_merge_level = PathType::kNvl;  // NCCL_NET_MERGE_LEVEL; NCCL's level PORT has the number of NVL
  bool net_merge_rail = false;                // NCCL_NET_MERGE_POLICY=RAIL
  std::string net_force_merge;                // NCCL_NET_FORCE_MERGE
  int mnnvl_scatter_nets = 1;                 // NCCL_MNNVL_SCATTER_NETS_ENABLE
  int mnnvl_rail_per_host = 0;                // NCCL_MNNVL_RAIL_PER_HOST
  int ib_merge_nics = 1;                      // NCCL_IB_MERGE_NICS
  int ib_merge_vfs = 1;                       // NCCL_IB_MERGE_VFS
  int ib_device_pci_order = 1;                // NCCL_IB_DEVICE_PCI_ORDER
  std::string ib_hca;  // NCCL_IB_HCA: the ports that are used (base/text/name_selection.h)

  // Does NCCL_IB_HCA choose this port? `device`: "mlx5_0".
  bool usesPort(std::string_view device, int port) const;
  // What a remark says of NICs that it does not choose; `how`: "", or " in part".
  std::string leftOutText(const std::string& nics, const char* how = "") const;
  // What a remark says of names in NCCL_IB_HCA that none of `devices` has. "": each name has a device, or
  // there is no device.
  std::string noDeviceText(const std::vector<std::string>& devices) const;

  // Not a setting of NCCL. True: the NICs of a /sys tree are named and placed as NCCL's own plugin does it.
  // False: as Railwise's plugin does it.
  bool net_ib = false;

  // Not a setting of NCCL. True: for RCCL's files the answers are those of NCCL's code, which uses its NVLink
  // constants for xGMI.
  bool xgmi_as_nvlink = false;

  // The variables that are set in the environment, such as "NCCL_P2P_LEVEL=SYS". Explain uses them in its
  // reasons.
  std::vector<std::string> from_environment;
  // Warnings about values that NCCL does not recognise. NCCL ignores such values, so the defaults stay.
  std::vector<std::string> warnings;
};

// A variable that is a number, and its field.
struct NumberSetting {
  const char* variable;
  int Settings::*field;
  std::optional<NcclRule> since = {};  // the releases that read it; nothing: all
  bool in_json = true;                 // `railwise topo show --json` has it where it is set
};
// Two tables, because NCCL reads what is no number in between.
inline constexpr NumberSetting kNumberSettings[] = {
    {"NCCL_NET_GDR_READ", &Settings::net_gdr_read},
    {"NCCL_NET_GDR_C2C", &Settings::net_gdr_c2c},
    {"NCCL_NET_GDR_MLOPART", &Settings::net_gdr_mlopart},
    {"NCCL_NET_FORCE_FLUSH", &Settings::net_force_flush},
    {"NCCL_NET_DISABLE_INTRA", &Settings::net_disable_intra},
    {"NCCL_NVB_DISABLE", &Settings::nvb_disable},
    {"NCCL_PXN_DISABLE", &Settings::pxn_disable},
    {"NCCL_PXN_C2C", &Settings::pxn_c2c},
    {"NCCL_P2P_PXN_LEVEL", &Settings::p2p_pxn_level},
    {"NCCL_CROSS_NIC", &Settings::cross_nic},
    {"NCCL_SHM_DISABLE", &Settings::shm_disable},
    {"NCCL_TOPO_SPLIT_MLOPART", &Settings::topo_split_mlopart},
    {"NCCL_TOPO_SCATTER_START_NET", &Settings::topo_scatter_start_net, NcclRule::kNicsByShareOfCx8, false},
    {"NCCL_IGNORE_CPU_AFFINITY", &Settings::ignore_cpu_affinity},
    {"NCCL_P2P_READ_ENABLE", &Settings::p2p_read_enable},
    {"NCCL_P2P_DIRECT_DISABLE", &Settings::p2p_direct_disable},
    {"NCCL_P2P_USE_CUDA_MEMCPY", &Settings::p2p_use_cuda_memcpy},
    {"NCCL_CUMEM_ENABLE", &Settings::cumem_enable},
    {"NCCL_MNNVL_ENABLE", &Settings::mnnvl_enable},
    {"NCCL_NVLS_ENABLE", &Settings::nvls_enable},
    {"NCCL_IGNORE_DISABLED_P2P", &Settings::ignore_disabled_p2p},
};
inline constexpr NumberSetting kNicSettings[] = {
    {"NCCL_MNNVL_SCATTER_NETS_ENABLE", &Settings::mnnvl_scatter_nets, {}, false},
    {"NCCL_MNNVL_RAIL_PER_HOST", &Settings::mnnvl_rail_per_host, {}, false},
    {"NCCL_IB_MERGE_NICS", &Settings::ib_merge_nics},
    {"NCCL_IB_MERGE_VFS", &Settings::ib_merge_vfs},
    {"NCCL_IB_DEVICE_PCI_ORDER", &Settings::ib_device_pci_order},
};

// Returns the value of an environment variable. Null: it is not set.
using Lookup = std::function<const char*(const char* name)>;
// Reads NCCL's variables as NCCL does, including the old numbers for the levels. The command passes
// std::getenv as `lookup`.
Settings settingsFromEnvironment(const Lookup& lookup, NcclVersion version = NcclVersion::kNewest);

}  // namespace railwise::topo
