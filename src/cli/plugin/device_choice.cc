#include "cli/plugin/device_choice.h"

#include <cstdlib>

#include "base/process.h"
#include "cli/options/message.h"

namespace railwise::cli {
namespace {

constexpr const char* kVariable = "RAILWISE_DEVICE";
// Opening every RDMA device of a large machine takes a few seconds at most.
constexpr auto kProbeLimit = std::chrono::seconds(30);

// Runs in the child process. Returns 0 if the plugin starts.
int probe(const PluginOptions& options, const char* device) {
  if (!options.verbose) setPluginLog(PluginLog::kNone);
  if (device != nullptr) setenv(kVariable, device, 1);
  auto plugin = loadPlugin(options);
  // If the plugin cannot be loaded, the problem is not its device. The caller's own attempt will report the
  // problem.
  if (!plugin.ok()) return 0;
  const auto count = startPlugin(*plugin->api, 1);
  if (count.ok()) (void)plugin->api->finalize();
  return count.ok() ? 0 : 1;
}

// Does the plugin start in a process of its own, with RAILWISE_DEVICE=`device`? If `device` is null, the
// variable stays as it is.
bool pluginStarts(const PluginOptions& options, const char* device) {
  ProcessPlan plan;
  plan.body = [&](std::string&) { return probe(options, device); };
  if (!options.verbose) plan.error = kStreamNothing;
  auto child = Process::start(plan);
  if (!child.ok()) return true;  // no probe, no fallback: the plugin's own init decides
  const auto& end = child->wait(Deadline::after(kProbeLimit));
  return end && end->good();
}

}  // namespace

void useOwnFabric(const std::string& name) {
  constexpr const char* kFabricVariable = "RAILWISE_FABRIC";
  const char* const named = std::getenv(kFabricVariable);
  if (named == nullptr || *named == '\0') setenv(kFabricVariable, name.c_str(), 1);
}

bool startsByItself(const PluginOptions& options) { return pluginStarts(options, nullptr); }

bool needsSoftwareDevice(const PluginOptions& options) {
  if (options.device != "auto" || std::getenv(kVariable) != nullptr) return false;
  return !pluginStarts(options, nullptr) && pluginStarts(options, "software");
}

void applyDevice(const PluginOptions& options, bool software_fallback) {
  if (options.device != "auto") {
    setenv(kVariable, options.device.c_str(), 1);
  } else if (software_fallback) {
    setenv(kVariable, "software", 1);
  }
}

}  // namespace railwise::cli
