#include "observe/stuck/words.h"

#include <algorithm>
#include <cstdio>

#include "base/text/printable.h"
#include "base/text/text_layout.h"

namespace railwise::observe {
namespace {

constexpr std::size_t kLongest = 256;

}  // namespace

std::string plainText(std::string_view text) { return printableAscii(text.substr(0, kLongest)); }

std::string processKey(const ProcessFacts& process) {
  return process.host + ":" + std::to_string(process.pid);
}

std::string hostName(const record::Process& process) {
  std::string host = plainText(process.host);
  const std::string suffix = ":" + std::to_string(process.pid);
  if (host.ends_with(suffix)) host.resize(host.size() - suffix.size());
  return host;
}

std::string processName(const ProcessFacts& process) {
  if (process.rank < 0) return processKey(process);
  return "rank " + std::to_string(process.rank) + " (" + processKey(process) + ")";
}

std::string bytesText(uint64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return counted(bytes, "byte", "bytes");
  double number = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (number /= 1024; number >= 1024 && unit + 1 < std::size(kUnits); ++unit) number /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %s", number, kUnits[unit]);
  return text;
}

std::string ageText(uint64_t ms) {
  constexpr uint64_t kMostMs = UINT64_MAX / 1000000;
  if (ms == kNever) return "an unknown time";
  return record::durationText(0, std::min(ms, kMostMs) * 1000000);
}

std::string wrapped(std::string_view text, std::string_view first, std::size_t indent) {
  return wrappedText(text, first, std::string(indent, ' '));
}

}  // namespace railwise::observe
