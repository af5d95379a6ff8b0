#include "net/topology/nccl_in_use.h"

#include <dlfcn.h>
#include <link.h>

#include <string_view>

#include "base/log.h"
#include "sysfs/file_tree.h"

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

// Is a library loaded whose file name has "ccl" in it? Looking for one that is not loaded takes dlopen() some
// 40 attempts to open files.
bool mayBeLoaded() {
  const auto named = [](dl_phdr_info* its, std::size_t, void*) {
    return sysfs::baseName(its->dlpi_name).find("ccl.so") != std::string_view::npos ? 1 : 0;
  };
  return dl_iterate_phdr(named, nullptr) != 0;
}

}  // namespace

std::optional<topo::NcclVersion> ncclInUse() {
  if (const auto release = releaseFrom(dlsym(RTLD_DEFAULT, kGetVersion))) return release;
  if (!mayBeLoaded()) return std::nullopt;
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
  if (!release) return topo::chooseRules({}).release;
  const topo::NcclChoice choice = topo::rulesFor(*release);
  RAILWISE_INFO(log::kInit | log::kNet, "NICs by the rules of NCCL %s%s%s",
                ncclVersionName(choice.rules).c_str(), choice.doubt.empty() ? "" : ": ",
                choice.doubt.c_str());
  return choice.rules;
}

}  // namespace railwise::net
