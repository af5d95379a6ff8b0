// What the <cpu> tags say of the processor: NCCL asks CPUID of the calling core, a recorded tree carries the
// answer. Plain values; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "topo/outcome.h"
#include "topo/sources/file_tree.h"

namespace railwise::topo {

struct CpuIdentity {
  std::string arch;    // "x86_64", "arm64", "ppc64"
  std::string vendor;  // CPUID's, e.g. "GenuineIntel"; x86 only
  int family = 0;      // family + (extended family << 4), as NCCL computes it: 175 is AMD's 25 (Zen 4)
  int model = 0;

  bool operator==(const CpuIdentity&) const = default;
};

// "x86_64,GenuineIntel,6,143"; other architectures need no more than their name: "arm64".
Outcome<CpuIdentity> parseCpuIdentity(std::string_view text);
std::string cpuIdentityText(const CpuIdentity& cpu);

// The processor that runs this code.
CpuIdentity thisCpu();

// The file of a recorded tree that holds cpuIdentityText.
inline constexpr char kCpuIdentityPath[] = "/railwise/cpu";
struct CpuAnswer {
  CpuIdentity cpu;
  std::string source;    // for people: "the recorded tree", "this machine"
  bool guessed = false;  // this machine's, for a tree that is not this machine's
};
CpuAnswer cpuOf(const FileTree& tree);

}  // namespace railwise::topo
