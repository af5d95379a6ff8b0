#include "net/topology/nccl_in_use.h"

#include <dlfcn.h>

#include "base/log.h"

namespace railwise::net {
namespace {

using GetVersion = int (*)(int* version);  // ncclResult_t, of which 0 is success
constexpr const char* kGetVersion = "ncclGetVersion";
constexpr int kFirstOfTwoDigits =
    20000;  // NCCL before 2.9 counted 2708 for 2.7.8; it loads no plugin of ours

std::optional<topo::NcclVersion> releaseFrom(void* function) {
  int code = 0;
  if (function == nullptr || reinterpret_cast<GetVersion>(function)(&code) != 0) return std::nullopt;
  if (code < kFirstOfTwoDigits) return std::nullopt;
  return topo::NcclVersion{code};
}

}  // namespace

std::optional<topo::NcclVersion> ncclInUse() {
  if (const auto release = releaseFrom(dlsym(RTLD_DEFAULT, kGetVersion))) return release;
  // Python loads libraries so that RTLD_DEFAULT does not see them. A library that is loaded is found by its
  // name, and this never loads it.
  for (const char* name : {"libnccl.so.2", "librccl.so.1"}) {
    void* const library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) continue;
    const auto release = releaseFrom(dlsym(library, kGetVersion));
    dlclose(library);  // our reference only
    if (release) return release;
  }
  return std::nullopt;
}

topo::NcclVersion rulesInUse() {
  const auto release = ncclInUse();
  if (!release) return topo::NcclVersion::k2_30;
  const topo::NcclChoice choice = topo::rulesFor(*release);
  RAILWISE_INFO(log::kInit | log::kNet, "NICs by the rules of NCCL %s%s%s",
                ncclVersionName(choice.rules).c_str(), choice.doubt.empty() ? "" : ": ",
                choice.doubt.c_str());
  return choice.rules;
}

}  // namespace railwise::net
