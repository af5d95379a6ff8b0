#include "softdev/config/drivers.h"

#include <algorithm>

#include "base/pci.h"

namespace railwise::softdev {
namespace {

struct Driver {
  const char* name;
  const char* vendor;
  uint32_t part;
  uint32_t max_sge;
  uint32_t max_inline;
  bool atomics;
};

// None of them has enhanced connection establishment (ECE), which is mlx5's. A queue pair that asks for more
// inline bytes is refused with EINVAL, as all of these drivers do.
// bnxt_re: six elements on chips of generation P5 and later (Linux, bnxt_re/qplib_sp.c), 96 inline bytes
//   (rdma-core, providers/bnxt_re/bnxt_re-abi.h), atomics only where the whole PCIe path routes them.
// hns: HNS_ROCE_V2_MAX_SQ_INLINE of HIP08 (Linux, hns/hns_roce_hw_v2.h), 64 elements, more than we have.
// ionic: IONIC_SPEC_HIGH elements (Linux, ionic/ionic_ibdev.c); a request of 64 bytes has 32 for inline data
//   (ionic/ionic_fw.h).
// irdma: of E810 (Linux, irdma/defs.h and user.h): 13 elements, 101 inline bytes, no atomics before
//   generation 3.
constexpr char kHuawei[] = "0x19e5";
constexpr Driver kDrivers[] = {
    {"bnxt_re", pci::kBroadcom, 0x1750, 6, 96, false},
    {"hns", kHuawei, 0xa222, 16, 32, true},
    {"ionic", pci::kPensando, 0x1002, 8, 32, true},
    {"irdma", pci::kIntel, 0x159b, 13, 101, false},
};

}  // namespace

bool makeLike(std::string_view driver, DeviceConfig& device) {
  const auto* const found = std::ranges::find(kDrivers, driver, &Driver::name);
  if (found == std::end(kDrivers)) return false;
  device.vendor_id = pci::numberOf(found->vendor);
  device.part_id = found->part;
  device.hca_type = found->name;
  device.max_sge = found->max_sge;
  device.max_inline_bytes = found->max_inline;
  device.atomics = found->atomics;
  device.ece = false;
  return true;
}

}  // namespace railwise::softdev
