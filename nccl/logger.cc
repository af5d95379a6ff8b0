#include "nccl/logger.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>

#include "base/log.h"

namespace railwise {
namespace {

// The number of each level. RCCL has other numbers since ROCm 7.2, and so has Meta's NCCL of some releases: a
// level ERROR has come in below WARN. With NCCL's numbers our INFO lines would be warnings there, and our
// warnings something else. Neither the version nor the name of the library tells: RCCL 2.27.7 of ROCm 7.1 has
// NCCL's numbers.
struct Levels {
  int warn;
  int info;
  int trace;
};
constexpr Levels kNccl = {NCCL_LOG_WARN, NCCL_LOG_INFO, NCCL_LOG_TRACE};
constexpr Levels kWithError = {NCCL_LOG_WARN + 1, NCCL_LOG_INFO + 1, NCCL_LOG_TRACE + 1};
static_assert(int{log::kWarn} == kNccl.warn && int{log::kInfo} == kNccl.info &&
              int{log::kTrace} == kNccl.trace);

using GetLastError = const char* (*)(void* communicator);

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};

// ncclGetLastError of the library that `logger` is in. Null: that library has none, or is the program itself.
GetLastError lastErrorOf(ncclDebugLogger_t logger) {
  Dl_info of_logger = {};
  if (dladdr(reinterpret_cast<void*>(logger), &of_logger) == 0) return nullptr;
  const std::unique_ptr<void, CloseLibrary> library(dlopen(of_logger.dli_fname, RTLD_LAZY | RTLD_NOLOAD));
  void* const found = library != nullptr ? dlsym(library.get(), "ncclGetLastError") : nullptr;
  // dlsym looks into the libraries that this one needs too.
  Dl_info of_found = {};
  if (found == nullptr || dladdr(found, &of_found) == 0 || of_found.dli_fbase != of_logger.dli_fbase)
    return nullptr;
  return reinterpret_cast<GetLastError>(found);
}

// Logs a probe at the number that is INFO to NCCL, for no subsystem: nothing is printed (NCCL's src/debug.cc,
// ncclDebugLog). ncclGetLastError returns the probe only if that number is WARN to this library. Then the
// text of before is put back.
const Levels& levelsOf(ncclDebugLogger_t logger) {
  const GetLastError last_error = lastErrorOf(logger);
  if (last_error == nullptr) return kNccl;
  const auto keep = [logger](const char* text) {
    logger(static_cast<ncclDebugLogLevel>(kWithError.warn), 0, __FILE__, __LINE__, "%s", text);
  };
  const auto kept = [last_error] {
    const char* const text = last_error(nullptr);
    return text != nullptr ? text : "";
  };
  char before[1024];
  std::snprintf(before, sizeof before, "%s", kept());
  constexpr const char* kProbe = "Railwise looks which level is WARN";
  keep(kProbe);
  if (std::strcmp(kept(), kProbe) != 0) return kNccl;
  keep(before);
  return kWithError;
}

std::mutex g_mutex;  // held while a logger is taken
std::atomic<ncclDebugLogger_t> g_logger = nullptr;
std::atomic<const char*> g_prefix = "";
std::atomic<const Levels*> g_levels = &kNccl;

ncclDebugLogLevel numberOf(int level, const Levels& levels) {
  if (level == log::kWarn) return static_cast<ncclDebugLogLevel>(levels.warn);
  return static_cast<ncclDebugLogLevel>(level == log::kInfo ? levels.info : levels.trace);
}

[[gnu::format(printf, 5, 6)]] void logToNccl(int level, unsigned long flags, const char* file, int line,
                                             const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (const ncclDebugLogger_t logger = g_logger)
    logger(numberOf(level, *g_levels), flags, file, line, "%s%s", g_prefix.load(), text);
}

}  // namespace

void setNcclLogger(ncclDebugLogger_t logger, const char* prefix) {
  const std::lock_guard lock(g_mutex);
  if (logger != nullptr && logger != g_logger) g_levels = &levelsOf(logger);
  g_prefix = prefix;
  g_logger = logger;
  log::setSink(logger != nullptr ? logToNccl : nullptr);
}

}  // namespace railwise
