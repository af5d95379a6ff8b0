// Messages to the user on stderr. Each is a whole line, "railwise: [rank R: ]text", written by one write(2),
// so that the lines of several ranks never mix. Also the logger that plugins get, and the progress line of a
// terminal. Thread-safe, except setMessagePrefix() and setVerbose(): call these before the first thread
// starts.
#pragma once

#include <string>
#include <vector>

#include "nccl/types.h"

namespace railwise::cli {

[[gnu::format(printf, 1, 2)]] void say(const char* format, ...);
// Says why a command ends, and returns the exit status `status`.
[[gnu::format(printf, 2, 3)]] int leave(int status, const char* format, ...);
// Formats into a string, like printf.
[[gnu::format(printf, 1, 2)]] std::string textOf(const char* format, ...);

// Sets the text that follows "railwise: " in every line, e.g. "rank 3: ".
void setMessagePrefix(std::string prefix);

enum class PluginLog { kNone, kWarn, kInfo };
// Chooses which log lines of the plugin, and of Railwise's own libraries, are shown.
void setPluginLog(PluginLog level);
// The function that plugins get as NCCL's logger.
void pluginLogger(ncclDebugLogLevel level, unsigned long flags, const char* file, int line,
                  const char* format, ...);

// Keeps the plugin's log lines that contain `part`, even if they are not shown. Call it before the plugin
// starts.
void keepPluginLines(std::string part);
std::vector<std::string> keptPluginLines();

// Shows a line that is rewritten in place; say() clears it first. Does nothing unless stderr is a terminal.
// Call clearProgress() before anything is written to stdout: both may be one terminal.
void showProgress(const std::string& text);
void clearProgress();

}  // namespace railwise::cli
