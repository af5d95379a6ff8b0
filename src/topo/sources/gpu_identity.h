// What NCCL asks NVML about a GPU because /sys does not have it: compute capability and NVLinks. The /sys
// tree of a software machine contains these answers, and so does a recording of such a tree. Plain values;
// thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sysfs/file_tree.h"

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

// Each GPU has a file in this folder, named after its bus id: "sm 90", then a line "nvlink 0000:05:00.0 2"
// for each target.
inline constexpr char kGpuIdentityFolder[] = "/railwise/gpus";
std::string gpuIdentityPath(std::string_view busid);
std::string gpuIdentityText(const GpuIdentity& gpu);
std::optional<GpuIdentity> parseGpuIdentity(std::string_view text);  // null: `text` has another form

// Null: the tree has no such file for the GPU.
std::optional<GpuIdentity> gpuOf(const sysfs::FileTree& tree, std::string_view busid);

}  // namespace railwise::topo
