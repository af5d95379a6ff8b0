#include "net/nccl_own_network.h"

#include <algorithm>

#include "verbs/library.h"

namespace railwise::net {

bool onLibibverbs() { return verbs::library().pci_path == nullptr; }

std::string ownNetworkNote(const Config& config, bool real, std::span<const DescribedDevice> devices) {
  // GIN and RMA need GPUDirect: without any, NCCL closes its own network again before it describes a device.
  // From 2.30.7 on Railwise's tables serve both, and NCCL opens its own network before only for GDAKI, the
  // GIN that GPUs drive, on mlx5 devices.
  const bool used = std::any_of(devices.begin(), devices.end(),
                                [](const DescribedDevice& device) { return device.gpu_direct; });
  if (!real || !used || config.ib_disable != 0) return "";
  std::string names;
  for (const DescribedDevice& device : devices) names += (names.empty() ? "" : ", ") + device.name;
  return "If NCCL opens its own IB network (2.29.7 to 2.30.4; newer with RAILWISE_RMA=0 or GDAKI), it "
         "describes " +
         names +
         " by its own IB network first (for GIN and RMA): for these names its speed, GUID and GPUDirect "
         "count, not Railwise's. To keep Railwise's, without GIN and RMA over IB: NCCL_IB_DISABLE=1 "
         "RAILWISE_DEVICE=verbs";
}

}  // namespace railwise::net
