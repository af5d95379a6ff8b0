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

// The number of each level. RCCL has other numbers since ROCm 7.2, where a level ERROR has come in at 1 (its
// src/include/nccl_common.h). NCCL's numbers would make warnings of our INFO lines there, and plain lines of
// our warnings. Neither the version nor the name of the library tells: 2.27.7 of ROCm 7.1 has the old
// numbers.
struct Levels {
  int warn;
  int info;
  int trace;
};
constexpr Levels kNccl = {NCCL_LOG_WARN, NCCL_LOG_INFO, NCCL_LOG_TRACE};
constexpr Levels kRccl = {NCCL_LOG_WARN + 1, NCCL_LOG_INFO + 1, NCCL_LOG_TRACE + 1};
static_assert(int{log::kWarn} == kNccl.warn && int{log::kInfo} == kNccl.info &&
              int{log::kTrace} == kNccl.trace);

using GetLastError = const char* (*)(void* communicator);

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};

// ncclGetLastError of the library that `logger` is in. Null: that library has none, so it is not NCCL itself.
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

// NCCL and RCCL keep the text of the last WARN for ncclGetLastError, and print a line only if it belongs to
// one of the subsystems in `flags` (src/debug.cc, ncclDebugLog). So a line without subsystem tells whether
// its level is WARN, and is not printed. The text of before is put back.
const Levels& levelsOf(ncclDebugLogger_t logger) {
  const GetLastError last_error = lastErrorOf(logger);
  if (last_error == nullptr) return kNccl;
  const auto keep = [logger](int warn, const char* text) {
    logger(static_cast<ncclDebugLogLevel>(warn), 0, __FILE__, __LINE__, "%s", text);
  };
  const auto kept = [last_error] {
    const char* const text = last_error(nullptr);
    return text != nullptr ? text : "";
  };
  char before[1024];
  std::snprintf(before, sizeof before, "%s", kept());
  for (const Levels* const levels : {&kNccl, &kRccl}) {
    constexpr const char* kProbe = "Railwise looks which level is WARN";
    keep(levels->warn, kProbe);
    if (std::strcmp(kept(), kProbe) != 0) continue;
    keep(levels->warn, before);
    return *levels;
  }
  return kNccl;
}

std::mutex g_mutex;  // held while a logger is taken
std::atomic<ncclDebugLogger_t> g_logger = nullptr;
std::atomic<const char*> g_prefix = "";
std::atomic<const Levels*> g_levels = &kNccl;

ncclDebugLogLevel numberOf(int level, const Levels& levels) {
  if (level == log::kWarn) return static_cast<ncclDebugLogLevel>(levels.warn);
  return static_cast<ncclDebugLogLevel>(level == log::kInfo ? levels.info : levels.trace);
}

// The level is an enum of NCCL's, so the line is formatted here.
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
