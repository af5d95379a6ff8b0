#include "base/log.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>

#include "base/text/printable.h"

namespace railwise::log {
namespace {

std::atomic<int> g_stderr_level{kWarn};

[[gnu::format(printf, 5, 6)]] void stderrSink(int level, unsigned long, const char*, int, const char* format,
                                              ...) {
  if (level > g_stderr_level.load(std::memory_order_relaxed)) return;
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  const char* kind = level == kWarn ? "warning: " : "";
  std::fprintf(stderr, "railwise: %s%s\n", kind, withoutControls(line, "\n\t").c_str());
}

std::atomic<Sink> g_sink{stderrSink};

}  // namespace

void setSink(Sink sink) { g_sink.store(sink != nullptr ? sink : stderrSink, std::memory_order_release); }
Sink sink() { return g_sink.load(std::memory_order_acquire); }
void setStderrLevel(Level level) { g_stderr_level.store(level, std::memory_order_relaxed); }

}  // namespace railwise::log
