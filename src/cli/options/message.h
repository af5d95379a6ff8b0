// What the command says to its user on stderr: whole lines, "railwise: [rank R: ]text", one write(2) each, so
// that the lines of several ranks never mix. Also the logger that plugins are given, and the progress line of
// a terminal. Thread-safe, except setMessagePrefix() and setVerbose(): call these before the first thread
// starts.
#pragma once

#include <string>
#include <vector>

#include "nccl/types.h"

namespace railwise::tools {

[[gnu::format(printf, 1, 2)]] void say(const char* format, ...);
// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string textOf(const char* format, ...);

// What follows "railwise: " in every line, e.g. "rank 3: ".
void setMessagePrefix(std::string prefix);

enum class PluginLog { kNone, kWarn, kInfo };
// Which of the plugin's lines (and of railwise's own libraries) are shown.
void setPluginLog(PluginLog level);
PluginLog pluginLog();
// NCCL's logger as a plugin sees it.
void pluginLogger(ncclDebugLogLevel level, unsigned long flags, const char* file, int line,
                  const char* format, ...);

// Keeps the plugin's lines that contain `part`, whether they are shown or not. Before the plugin starts.
void keepPluginLines(std::string part);
std::vector<std::string> keptPluginLines();

// A line that is rewritten in place; say() clears it first. Only when stderr is a terminal and stdout is not,
// where it would stand between the rows of the table.
void showProgress(const std::string& text);
void clearProgress();

}  // namespace railwise::tools
