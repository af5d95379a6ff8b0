// The processor attributes of the <cpu> tags. NCCL reads them with CPUID on the core that it runs on. A
// recorded tree contains the answer. Plain values; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "base/outcome.h"
#include "sysfs/file_tree.h"

namespace railwise::topo {

struct CpuIdentity {
  std::string arch;    // "x86_64", "arm64", "ppc64"
  std::string vendor;  // the vendor that CPUID reports, e.g. "GenuineIntel"; x86 only
  // Family + (extended family << 4), as NCCL computes it up to 2.30: AMD's family 25 (Zen 4) becomes 175.
  int family = 0;
  int model = 0;

  bool operator==(const CpuIdentity&) const = default;
};

// Text form: "x86_64,GenuineIntel,6,143". Architectures other than x86 have only their name: "arm64".
Outcome<CpuIdentity> parseCpuIdentity(std::string_view text);
std::string cpuIdentityText(const CpuIdentity& cpu);

// The same processor with the family and model that the manuals and NCCL from 2.31 on give it: 175
// becomes 25. A family that is already the manuals' stays.
CpuIdentity familyOfManuals(CpuIdentity cpu);

// The processor that runs this code.
CpuIdentity thisCpu();

// The file in a recorded tree that holds the text of cpuIdentityText().
inline constexpr char kCpuIdentityPath[] = "/railwise/cpu";
struct CpuAnswer {
  CpuIdentity cpu;
  std::string source;    // for people: "the recorded tree" or "this machine"
  bool guessed = false;  // `cpu` is this machine's processor, although the tree is from another machine
};
CpuAnswer cpuOf(const sysfs::FileTree& tree);

}  // namespace railwise::topo
