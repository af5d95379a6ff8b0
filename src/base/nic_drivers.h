// The drivers of RDMA devices, and what each does in its own way: one table for the plugin, the doctor and
// the software device (`like=bnxt_re`).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/pci.h"

namespace railwise {

// What a software device takes over of a card. The vendor and the part are those of PCI.
struct NicLimits {
  uint32_t part = 0;  // 0: no software device is like a card of this driver
  uint32_t max_sge = 0;
  uint32_t max_inline_bytes = 0;
  bool atomics = false;
};

struct NicDriver {
  std::string_view name;    // as in lib<name>-rdmav*.so, rdma-core's library
  std::string_view vendor;  // of PCI; "": a device that the kernel makes in software
  std::string_view prefix;  // of the device's name, by the kernel or by a cloud's rules
  std::string_view module;  // of the kernel: provides the RDMA device
  NicLimits limits = {};
  uint32_t verbs_vendor = 0;        // vendor_id of verbs, where a rule asks for it
  bool post_raises_signal = false;  // a post can raise SIGPIPE in its thread
};

// Names, ids and modules: rdma-core 65, providers/*, and Linux, drivers/infiniband. Each of `limits` has its
// source here. None of these has enhanced connection establishment (ECE), which is mlx5's. A queue pair that
// asks for more inline bytes is refused with EINVAL, as all of these drivers do.
// bnxt_re: six elements on chips of generation P5 and later (Linux, bnxt_re/qplib_sp.c), 96 inline bytes
//   (rdma-core, providers/bnxt_re/bnxt_re-abi.h), atomics only where the whole PCIe path routes them.
// hns: HNS_ROCE_V2_MAX_SQ_INLINE of HIP08 (Linux, hns/hns_roce_hw_v2.h), 64 elements, more than the software
//   device has.
// ionic: IONIC_SPEC_HIGH elements (Linux, ionic/ionic_ibdev.c); a request of 64 bytes has 32 for inline data
//   (ionic/ionic_fw.h).
// irdma: of E810 (Linux, irdma/defs.h and user.h): 13 elements, 101 inline bytes, no atomics before
//   generation 3.
// siw: its TCP socket sends without MSG_NOSIGNAL (Linux, sw/siw/siw_qp_tx.c); SIW_VENDOR_ID (siw.h).
inline constexpr NicDriver kNicDrivers[] = {
    {"mlx5", pci::kMellanox, "mlx5_", "mlx5_ib"},
    {"mlx4", pci::kMellanox, "mlx4_", "mlx4_ib"},
    {"bnxt_re", pci::kBroadcom, "bnxt_re", "bnxt_re", {0x1750, 6, 96, false}},
    {"efa", pci::kAmazon, "efa_", "efa"},
    {"efa", pci::kAmazon, "rdmap", "efa"},
    {"hns", pci::kHuawei, "hns_", "hns_roce_hw_v2", {0xa222, 16, 32, true}},
    {"ionic", pci::kPensando, "ionic_", "ionic_rdma", {0x1002, 8, 32, true}},
    {"irdma", pci::kIntel, "irdma", "irdma", {0x159b, 13, 101, false}},
    {"erdma", "0x1ded", "erdma_", "erdma"},
    {"qedr", "0x1077", "qedr", "qedr"},
    {"ocrdma", "0x10df", "ocrdma", "ocrdma"},
    {"cxgb4", "0x1425", "cxgb4_", "iw_cxgb4"},
    {"mana", "0x1414", "mana_", "mana_ib"},
    {"rxe", "", "rxe", "rdma_rxe"},
    {.name = "siw",
     .vendor = "",
     .prefix = "siw",
     .module = "siw",
     .verbs_vendor = 0x626d74,
     .post_raises_signal = true},
};

// The driver of an RDMA device by its name, else by its PCI vendor ("0x15b3"; "": not known). Null: none.
constexpr const NicDriver* nicDriverOf(std::string_view device, std::string_view vendor) {
  const auto* found = std::ranges::find_if(
      kNicDrivers, [&](const NicDriver& driver) { return device.starts_with(driver.prefix); });
  if (found == std::end(kNicDrivers) && !vendor.empty())
    found = std::ranges::find(kNicDrivers, vendor, &NicDriver::vendor);
  return found == std::end(kNicDrivers) ? nullptr : found;
}

}  // namespace railwise
