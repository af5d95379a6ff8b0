#include "cli/plugin/behind_drop_in.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/process.h"
#include "cli/options/message.h"
#include "cli/plugin/device_choice.h"

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

}  // namespace

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
