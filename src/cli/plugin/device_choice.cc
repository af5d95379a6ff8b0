#include "cli/plugin/device_choice.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/process.h"
#include "cli/options/message.h"

namespace railwise::cli {
namespace {

constexpr const char* kOwnPluginName = "Railwise";  // as its table says
constexpr const char* kBehindVariable = "RAILWISE_BEHIND_DROP_IN";
constexpr std::string_view kSoftwareKind = "software";

// The machine of --device software[:CONFIG], for --machine; "": the one of RAILWISE_DEVICE, or the default.
std::string machineOf(const PluginOptions& options) {
  if (!options.device.starts_with(kSoftwareKind)) return "";
  const std::size_t colon = options.device.find(':');
  return colon == std::string::npos ? "default" : options.device.substr(colon + 1);
}

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

bool needsDropIn(const PluginOptions& options, const std::string& name) {
  if (name == kOwnPluginName || std::getenv(kBehindVariable) != nullptr) return false;
  if (options.device != "auto") return options.device.starts_with(kSoftwareKind);
  const char* const variable = std::getenv("RAILWISE_DEVICE");
  if (variable != nullptr) return std::string_view(variable).starts_with(kSoftwareKind);
  return !startsByItself(options);
}

int runBehindDropIn(const char* command, const PluginOptions& options, Args args) {
  const std::string machine = machineOf(options);
  say("plugin %s runs on software devices behind Railwise's libibverbs.so.1 (as with railwise device run)",
      options.plugin.c_str());
  setenv(kBehindVariable, "1", 1);
  setenv("NCCL_SOCKET_IFNAME", "lo", 0);  // a fabric is on one machine, which may have no other interface
  const std::string executable = executablePath();
  std::vector<std::string> words = {executable, "device", "run", "--sysfs", kSysfsForOtherPlugins};
  if (!machine.empty()) words.insert(words.end(), {"--machine", machine});
  words.insert(words.end(), {"--", executable, command});
  words.insert(words.end(), args.begin(), args.end());
  execv(executable.c_str(), argvOf(words).data());
  say("%s: cannot run %s again: %s", command, executable.c_str(), std::strerror(errno));
  return kExitFailed;
}

}  // namespace railwise::cli
