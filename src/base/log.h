// Logging through one process-wide sink: NCCL's logger inside the plugin, stderr in the tools. Style of a
// message: lower case; device, port and queue pair in that order; hexadecimal only for addresses and masks;
// no newline at the end. Thread-safe. On the data path only RAILWISE_DEBUG (level TRACE) is allowed, which is
// compiled out unless RAILWISE_TRACE is defined.
#pragma once

namespace railwise::log {

// The values equal NCCL's ncclDebugLogLevel and subsystem masks (nccl/logger.h: where levels differ).
enum Level : int { kWarn = 2, kInfo = 3, kTrace = 5 };
enum Subsystem : unsigned long {
  kInit = 0x1,
  kNet = 0x10,
  kTuning = 0x40,
  kEnv = 0x80,
  kReg = 0x2000,
  kAll = ~0UL
};

// `file` is the source file for WARN and the function name for INFO and TRACE, because NCCL prints them so.
using Sink = void (*)(int level, unsigned long flags, const char* file, int line, const char* format, ...);

// Replaces the sink. Null restores the stderr sink, which writes WARN always and other levels as
// setStderrLevel() allows.
void setSink(Sink sink);
Sink sink();

// The most detailed level that the stderr sink writes: kWarn (default), kInfo or kTrace.
void setStderrLevel(Level level);

// Never called: it only lets the compiler check the format string of every log line.
[[gnu::format(printf, 1, 2)]] inline void checkFormat(const char*, ...) {}

}  // namespace railwise::log

#define RAILWISE_LOG(level, flags, where, ...)                                 \
  do {                                                                         \
    if (false) ::railwise::log::checkFormat(__VA_ARGS__);                      \
    ::railwise::log::sink()((level), (flags), (where), __LINE__, __VA_ARGS__); \
  } while (0)

#define RAILWISE_WARN(...) RAILWISE_LOG(::railwise::log::kWarn, ::railwise::log::kAll, __FILE__, __VA_ARGS__)
#define RAILWISE_INFO(subsystem, ...) RAILWISE_LOG(::railwise::log::kInfo, (subsystem), __func__, __VA_ARGS__)
#ifdef RAILWISE_TRACE
#define RAILWISE_DEBUG(subsystem, ...) \
  RAILWISE_LOG(::railwise::log::kTrace, (subsystem), __func__, __VA_ARGS__)
#else
#define RAILWISE_DEBUG(subsystem, ...)                    \
  do {                                                    \
    if (false) ::railwise::log::checkFormat(__VA_ARGS__); \
  } while (0)
#endif
