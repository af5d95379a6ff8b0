#include "cli/options/message.h"

#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "base/text/printable.h"
#include "base/text/text_layout.h"

namespace railwise::cli {
namespace {

std::string g_prefix;
std::atomic<PluginLog> g_plugin_log{PluginLog::kWarn};
std::atomic<bool> g_progress_shown{false};

struct KeptLines {
  std::mutex mutex;
  std::string part;  // empty: no lines are kept
  std::vector<std::string> lines;
};
KeptLines g_kept;

void keepLine(const std::string& text) {
  const std::lock_guard lock(g_kept.mutex);
  if (text.find(g_kept.part) != std::string::npos) g_kept.lines.push_back(text);
}

// Where stderr is closed, the message cannot be shown.
void writeStderr(const std::string& line) { (void)writeAll(STDERR_FILENO, line); }

void sayLine(const std::string& text) {
  const char* clear = g_progress_shown.exchange(false) ? "\r\033[K" : "";
  // The text may repeat arguments, files' names and words of peers.
  writeStderr(clear + ("railwise: " + g_prefix) + withoutControls(text, "\n\t") + "\n");
}

}  // namespace

std::string textOf(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = vformatText(format, arguments);
  va_end(arguments);
  return text;
}

void say(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  sayLine(vformatText(format, arguments));
  va_end(arguments);
}

int leave(int status, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  sayLine(vformatText(format, arguments));
  va_end(arguments);
  return status;
}

void setMessagePrefix(std::string prefix) { g_prefix = std::move(prefix); }

void setPluginLog(PluginLog level) {
  g_plugin_log = level;
  log::setStderrLevel(level == PluginLog::kInfo ? log::kInfo : log::kWarn);
}

void pluginLogger(ncclDebugLogLevel level, unsigned long, const char*, int, const char* format, ...) {
  const PluginLog shown = g_plugin_log;
  const bool wanted = level <= NCCL_LOG_WARN ? shown != PluginLog::kNone : shown == PluginLog::kInfo;
  const bool keeps = !g_kept.part.empty();
  if ((!wanted && !keeps) || format == nullptr || (level == NCCL_LOG_TRACE)) return;
  va_list arguments;
  va_start(arguments, format);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  const std::string text = vformatText(format, arguments);
#pragma GCC diagnostic pop
  va_end(arguments);
  if (keeps) keepLine(text);
  // The plugin may repeat its last warning for NCCL, which keeps it for ncclGetLastError.
  static std::mutex mutex;
  static auto& last_warning = *new std::string;
  if (wanted && level == NCCL_LOG_WARN) {
    const std::lock_guard lock(mutex);
    if (std::exchange(last_warning, text) == text) return;
  }
  if (wanted) sayLine((level == NCCL_LOG_WARN ? "plugin warns: " : "plugin: ") + text);
}

void keepPluginLines(std::string part) { g_kept.part = std::move(part); }

std::vector<std::string> keptPluginLines() {
  const std::lock_guard lock(g_kept.mutex);
  return g_kept.lines;
}

void showProgress(const std::string& text) {
  const char* const term = std::getenv("TERM");
  const bool dumb = term != nullptr && std::string_view(term) == "dumb";
  if (isatty(STDERR_FILENO) == 0 || dumb) return;
  g_progress_shown = true;
  writeStderr("\r\033[K" + text);
}

void clearProgress() {
  if (g_progress_shown.exchange(false)) writeStderr("\r\033[K");
}

}  // namespace railwise::cli
