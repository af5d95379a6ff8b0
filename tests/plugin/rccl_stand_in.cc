#include "rccl_stand_in.h"

#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <string>

namespace {

std::mutex g_mutex;
std::string g_printed;
char g_last_error[1024];

}  // namespace

extern "C" void standInLog(ncclDebugLogLevel level, unsigned long flags, const char*, int, const char* format,
                           ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  const std::lock_guard lock(g_mutex);
  if (level == STAND_IN_WARN || level == STAND_IN_ERROR)
    std::snprintf(g_last_error, sizeof g_last_error, "%s", text);
  if (level > STAND_IN_WARN || flags == 0) return;
  g_printed += (level == STAND_IN_WARN ? "WARN " : "") + std::string(text) + "\n";
}

extern "C" void standInWarn(const char* text) {
  standInLog(static_cast<ncclDebugLogLevel>(STAND_IN_WARN), ~0UL, __FILE__, __LINE__, "%s", text);
}

extern "C" const char* ncclGetLastError(void*) { return g_last_error; }

extern "C" const char* standInPrinted() {
  static std::string printed;
  const std::lock_guard lock(g_mutex);
  printed = g_printed;
  return printed.c_str();
}

extern "C" void standInClear() {
  const std::lock_guard lock(g_mutex);
  g_printed.clear();
}

// Of a release that has a GIN of its own; seen by the plugin only where a test loads this with RTLD_GLOBAL.
extern "C" [[gnu::visibility("default")]] int ncclGetVersion(int* version) {
  *version = 22907;
  return 0;
}
