#include "topo/sources/cpu_identity.h"

#include <cstring>
#include <vector>

#include "base/text/words.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace railwise::topo {
namespace {

bool parseNumber(std::string_view text, int& number) {
  number = numberIn<int>(text).value_or(-1);
  return number >= 0;
}

// The vendor will be written into a quoted attribute.
bool isName(std::string_view text) {
  if (text.empty() || text.size() > 32) return false;
  return text.find_first_of("\"'<>&=\n\r\t") == std::string_view::npos;
}

Error badIdentity(std::string_view text) {
  return Error{"\"" + std::string(text.substr(0, 64)) +
               "\" is no CPU identity: write arch,vendor,family,model, e.g. x86_64,GenuineIntel,6,143 "
               "(arch: x86_64, arm64 or ppc64; arm64 and ppc64 need no more)"};
}

}  // namespace

Outcome<CpuIdentity> parseCpuIdentity(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  const std::vector<std::string> field = splitAt(text, ',');
  CpuIdentity cpu;
  cpu.arch = field[0];
  const bool x86 = cpu.arch == "x86_64";
  if (!x86 && cpu.arch != "arm64" && cpu.arch != "ppc64") return badIdentity(text);
  if (!x86 && field.size() == 1) return cpu;
  if (field.size() != 4 || !parseNumber(field[2], cpu.family) || !parseNumber(field[3], cpu.model)) {
    return badIdentity(text);
  }
  if (!isName(field[1]) && (x86 || !field[1].empty())) return badIdentity(text);
  cpu.vendor = field[1];
  return cpu;
}

std::string cpuIdentityText(const CpuIdentity& cpu) {
  if (cpu.arch != "x86_64" && cpu.vendor.empty()) return cpu.arch;
  return cpu.arch + "," + cpu.vendor + "," + std::to_string(cpu.family) + "," + std::to_string(cpu.model);
}

CpuIdentity familyOfManuals(CpuIdentity cpu) {
  constexpr int kExtended = 15;  // the base family of all processors that have an extended one
  constexpr int kIntel = 6;      // the other base family with an extended model
  const int base = cpu.family & 0xf;
  if (base == kExtended) {
    cpu.family = kExtended + (cpu.family >> 4);
  } else if (cpu.family < kExtended && base != kIntel) {
    cpu.model &= 0xf;
  }
  return cpu;
}

// As NCCL's ncclTopoGetXmlFromCpu: the architecture is that of the build. On architectures other than x86
// nothing else is written.
CpuIdentity thisCpu() {
  CpuIdentity cpu;
#if defined(__x86_64__)
  cpu.arch = "x86_64";
  unsigned eax = 0;
  unsigned part[3] = {};  // the vendor's name, from EBX, EDX and ECX
  if (__get_cpuid(0, &eax, &part[0], &part[2], &part[1]) != 0) {
    char name[sizeof part];
    std::memcpy(name, part, sizeof part);
    cpu.vendor.assign(name, ::strnlen(name, sizeof name));
  }
  unsigned unused[3] = {};
  if (__get_cpuid(1, &eax, &unused[0], &unused[1], &unused[2]) != 0) {
    // The processor manuals add the extended family. NCCL up to 2.30 shifts it instead, and the tables of
    // those releases expect the shifted value. familyOfManuals() makes the other one.
    cpu.family = static_cast<int>(((eax >> 8) & 0xf) + (((eax >> 20) & 0xff) << 4));
    cpu.model = static_cast<int>(((eax >> 4) & 0xf) + (((eax >> 16) & 0xf) << 4));
  }
#elif defined(__aarch64__)
  cpu.arch = "arm64";
#elif defined(__PPC__)
  cpu.arch = "ppc64";
#endif
  return cpu;
}

CpuAnswer cpuOf(const sysfs::FileTree& tree) {
  if (const auto text = tree.read(kCpuIdentityPath)) {
    const Outcome<CpuIdentity> recorded = parseCpuIdentity(*text);
    if (recorded.ok()) return {*recorded, "the recorded tree", false};
  }
  return {thisCpu(), "this machine", !tree.live()};
}

}  // namespace railwise::topo
