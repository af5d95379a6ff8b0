// Lines of src/net.cc, src/plugin/ and src/misc/param.cc: settings, plugins, the network in use.
#include <algorithm>

#include "doctor/log/reading/reader.h"

namespace railwise::doctor {
namespace {

constexpr std::size_t kMostFacts = 16;
constexpr std::size_t kMostSettings = 256;

// "NCCL_IB_HCA set by environment to mlx5_0", "NCCL_IB_TIMEOUT set by environment to 22.", "Plugin name set
// by env to railwise", "NCCL_IB_HCA set to mlx5".
bool readSetting(Process& process, std::string_view text, Place place) {
  std::string_view name = firstWord(text);
  std::string_view value = after(text, " set by environment to ");
  if (value.data() == nullptr) value = after(text, " set to ");
  if (text.find("lugin name set by env to ") != std::string_view::npos) {
    if (text.starts_with("TUNER/") || text.starts_with("PROFILER/") || text.starts_with("ENV/")) return true;
    name = "NCCL_NET_PLUGIN";
    value = after(text, "set by env to ");
  }
  const bool ours = name.starts_with("NCCL_") || name.starts_with("RAILWISE_") || name.starts_with("RCCL_");
  if (!ours || value.data() == nullptr) return false;
  // NCCL ends a number with a full stop.
  if (value.ends_with('.') && value.find_first_not_of("-0123456789.") == std::string_view::npos)
    value.remove_suffix(1);
  if (process.settings.size() < kMostSettings || process.settings.count(std::string(name)) > 0)
    setFact(process.settings[std::string(name)], value.empty() ? "(empty)" : value, place);
  return true;
}

void addAttempt(Process& process, std::string_view name, std::string_view reason, Place place) {
  if (process.attempts.size() >= kMostFacts) return;
  const bool known =
      std::ranges::any_of(process.attempts, [&](const PluginAttempt& other) { return other.name == name; });
  if (!known) process.attempts.push_back({std::string(name), std::string(reason), place});
}

// "Comm config netName reset to NCCL_NET=Railwise" (2.27 to 2.32)
bool readNetName(Process& process, std::string_view text, Place place) {
  const std::string_view name = after(text, "netName reset to NCCL_NET=");
  if (name.data() != nullptr) setFact(process.settings["NCCL_NET"], name, place);
  return name.data() != nullptr;
}

// What follows `key` in parentheses: "No plugin found (libnccl-net.so), using ...".
std::string_view inParentheses(std::string_view text, std::string_view key) {
  const std::string_view rest = after(text, key);
  return rest.data() == nullptr ? rest : firstWord(rest, ")");
}

// "libx.so: cannot open shared object file: No such file or directory": dlopen's words.
bool isMissingFile(std::string_view reason) {
  return reason.find("cannot open shared object file: No such file") != std::string_view::npos;
}

// "Could not find: a.so b.so. Using internal network plugin." (2.22 to 2.32)
void readNotFound(Process& process, std::string_view names, Place place) {
  const std::size_t end = names.find(". ");
  names = names.substr(0, end);
  while (!names.empty() && (names.back() == '.' || names.back() == ' ')) names.remove_suffix(1);
  for (const std::string_view name : wordsIn(names)) addAttempt(process, name, "", place);
}

// The words behind "NET/Plugin: ".
void readPluginWords(Process& process, std::string_view text, Place place) {
  if (text.starts_with("Could not find:")) return readNotFound(process, text.substr(15), place);
  if (const auto loaded = after(text, "Loaded net plugin "); loaded.data() != nullptr) {
    // "AWS Libfabric (v9)": the name may have blanks.
    setFact(process.plugin, loaded.substr(0, loaded.rfind(" (v")), place);
    if (process.plugin_api == 0) process.plugin_api = std::max(0, numberAfter(loaded, "(v"));
    return;
  }
  if (text.starts_with("Loaded ") || text.starts_with("Closing ")) return;  // of collnet, gin
  if (const auto symbol = after(text, "Failed to find "); symbol.data() != nullptr) {
    if (symbol.starts_with("ncclNetPlugin") && process.missing_symbols.size() < kMostFacts)
      process.missing_symbols.push_back({std::string(symbol), place});
    return;
  }
  // 2.13 to 2.22: dlopen's words in parentheses, before or behind.
  if (text.starts_with("No plugin found ("))
    return addAttempt(process, inParentheses(text, "found ("), "", place);
  if (const auto loaded = after(text, "Plugin load ("); loaded.data() != nullptr) {
    const auto reason = after(after(loaded, " returned "), " : ");
    return addAttempt(process, firstWord(loaded, ")"), isMissingFile(reason) ? "" : reason, place);
  }
  const auto reason = text.starts_with("Plugin load returned ")         ? after(text, " : ")
                      : text.starts_with("Most recent plugin load ")    ? after(text, " : ")
                      : text.find("dlerror=") != std::string_view::npos ? after(text, "dlerror=")
                                                                        : std::string_view();
  if (reason.data() != nullptr) {
    const auto name = after(reason, "when loading ");
    const std::string_view file = name.data() != nullptr ? name : firstWord(reason, ":");
    return addAttempt(process, file, isMissingFile(reason) ? "" : reason, place);
  }
  // 2.22 to 2.32: "[name: ]dlopen's words".
  const std::string_view file = firstWord(text, ":");
  if (file.find(".so") != std::string_view::npos && file.find(' ') == std::string_view::npos &&
      file.size() < text.size())
    addAttempt(process, file, text, place);
}

bool readNetwork(Process& process, std::string_view text, Place place) {
  if (text.starts_with("Using network ")) {
    const std::string name(text.substr(14));
    if (process.network.empty()) process.network = name;
    if (process.networks.size() < kMostFacts) process.networks.emplace(name, place);
    return true;
  }
  if (const auto failed = after(text, "Failed to initialize NET plugin "); failed.data() != nullptr) {
    const bool own = failed == "IB" || failed == "Socket";  // NCCL brings these
    if (!own && process.failed_plugins.size() < kMostFacts)
      process.failed_plugins.push_back({std::string(failed), place});
    return true;
  }
  if (text.starts_with("External network plugin ")) {
    setFact(process.unsupported_plugin, firstWord(text.substr(24)), place);
    return true;
  }
  if (text.starts_with("Successfully loaded external ")) {
    setFact(process.plugin_path, text.substr(text.rfind(' ') + 1), place);
    return true;
  }
  if (text.starts_with("Plugin Path : ")) {  // HPC-X's
    setFact(process.plugin_path, text.substr(14), place);
    return true;
  }
  if (text.starts_with("P2P plugin ")) {
    // "P2P plugin [v8 ]IBext_v8": HPC-X's plugin gives itself another name than the one it was loaded with.
    process.plugin = {};
    setFact(process.plugin, text.substr(text.rfind(' ') + 1), place);
    return true;
  }
  return false;
}

}  // namespace

bool readPluginLine(Process& process, std::string_view text, Place place) {
  for (const std::string_view key : {"NET/Plugin: ", "NET/Plugin : "}) {
    if (!text.starts_with(key)) continue;
    const std::string_view words = text.substr(key.size());
    if (!readSetting(process, words, place)) readPluginWords(process, words, place);
    return true;
  }
  if (readNetwork(process, text, place) || readNetName(process, text, place)) return true;
  constexpr std::string_view kRailwise = "NET/Railwise : ";
  const std::string_view words = text.starts_with(kRailwise) ? text.substr(kRailwise.size()) : text;
  if (words.find(" set ") != std::string_view::npos && readSetting(process, words, place)) return true;
  if (text.starts_with("cudaDriverVersion ")) {
    setFact(process.driver, firstWord(text.substr(18)), place);
    return true;
  }
  return false;
}

}  // namespace railwise::doctor
