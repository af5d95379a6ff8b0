#include "logger.h"

#include <cstdarg>
#include <cstdio>
#include <mutex>

namespace railwise::test {
namespace {

std::mutex g_mutex;
std::string g_warnings;
std::string g_all;

// Of a long run the latest lines.
constexpr std::size_t kKept = 1 << 20;
void append(std::string& lines, const char* text) {
  if (lines.size() > kKept) lines.erase(0, kKept / 2);
  lines += text;
  lines += '\n';
}

}  // namespace

void keepLog(ncclDebugLogLevel level, unsigned long, const char*, int, const char* format, ...) {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  const std::lock_guard lock(g_mutex);
  append(g_all, text);
  if (level == NCCL_LOG_WARN) append(g_warnings, text);
}

std::string warnings() {
  const std::lock_guard lock(g_mutex);
  return g_warnings;
}

std::string logText() {
  const std::lock_guard lock(g_mutex);
  return g_all;
}

void clearLog() {
  const std::lock_guard lock(g_mutex);
  g_all.clear();
  g_warnings.clear();
}

}  // namespace railwise::test
