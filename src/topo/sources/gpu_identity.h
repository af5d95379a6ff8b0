// What NCCL asks NVML of a GPU, since /sys does not tell it: compute capability and NVLinks. The tree of a
// software machine, and what is recorded of one, carries the answers. Plain values; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topo/sources/file_tree.h"

namespace railwise::topo {

struct GpuIdentity {
  struct Nvlink {
    std::string target;  // bus id of a GPU or an NVSwitch, or kHiddenTarget (load.h)
    int count = 0;

    bool operator==(const Nvlink&) const = default;
  };
  int sm = 0;                   // compute capability times ten
  std::vector<Nvlink> nvlinks;  // in NVML's order

  bool operator==(const GpuIdentity&) const = default;
};

// A file for each GPU, named after its bus id: "sm 90", then a line "nvlink 0000:05:00.0 2" for each target.
inline constexpr char kGpuIdentityFolder[] = "/railwise/gpus";
std::string gpuIdentityPath(std::string_view busid);
std::string gpuIdentityText(const GpuIdentity& gpu);
std::optional<GpuIdentity> parseGpuIdentity(std::string_view text);  // nothing: it is no such text

// Nothing: the tree does not tell.
std::optional<GpuIdentity> gpuOf(const FileTree& tree, std::string_view busid);

}  // namespace railwise::topo
