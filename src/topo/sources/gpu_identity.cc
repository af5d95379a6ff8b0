#include "topo/sources/gpu_identity.h"

#include <algorithm>
#include <charconv>

namespace railwise::topo {
namespace {

// Removes the text up to the separator from the front of `text`, with the separator, and returns it without
// the separator.
std::string_view cut(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

bool parseNumber(std::string_view text, int low, int high, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= low && number <= high;
}

// The target will be written into a quoted attribute.
bool isTarget(std::string_view text) {
  return !text.empty() && text.size() <= 16 &&
         text.find_first_not_of("0123456789abcdef:.") == std::string_view::npos;
}

}  // namespace

std::string gpuIdentityPath(std::string_view busid) {
  return std::string(kGpuIdentityFolder) + "/" + std::string(busid);
}

std::string gpuIdentityText(const GpuIdentity& gpu) {
  std::string text = "sm " + std::to_string(gpu.sm) + "\n";
  for (const GpuIdentity::Nvlink& link : gpu.nvlinks)
    text += "nvlink " + link.target + " " + std::to_string(link.count) + "\n";
  return text;
}

std::optional<GpuIdentity> parseGpuIdentity(std::string_view text) {
  GpuIdentity gpu;
  while (!text.empty()) {
    std::string_view line = cut(text, '\n');
    const std::string_view word = cut(line, ' ');
    if (word == "sm" && gpu.sm == 0) {
      if (!parseNumber(line, 10, 999, gpu.sm)) return std::nullopt;
    } else if (word == "nvlink") {
      GpuIdentity::Nvlink& link = gpu.nvlinks.emplace_back();
      link.target = cut(line, ' ');
      if (!isTarget(link.target) || !parseNumber(line, 1, 64, link.count)) return std::nullopt;
    } else {
      return std::nullopt;
    }
  }
  if (gpu.sm == 0) return std::nullopt;
  return gpu;
}

std::optional<GpuIdentity> gpuOf(const sysfs::FileTree& tree, std::string_view busid) {
  const auto text = tree.read(gpuIdentityPath(busid));
  return text ? parseGpuIdentity(*text) : std::nullopt;
}

}  // namespace railwise::topo
