#include "cli/device/fabric.h"

#include <pwd.h>
#include <unistd.h>

#include <array>

#include "base/text/words.h"
#include "cli/device/machine.h"
#include "cli/options/message.h"
#include "softdev/engine/attachment.h"
#include "softdev/fabric/joining/membership.h"

namespace railwise::cli {
namespace {

constexpr std::array<Choice<DeviceFormat>, 2> kFormats = {
    {{"text", DeviceFormat::kText}, {"json", DeviceFormat::kJson}}};

// The fabric of a configuration that names none.
constexpr const char* kUnnamed = "default";

std::string userName() {
  const passwd* user = getpwuid(geteuid());
  return user != nullptr ? user->pw_name : std::to_string(geteuid());
}

}  // namespace

void addDeviceFabricOptions(std::vector<Option>& table, DeviceFabricOptions& fields) {
  table.push_back(textOption(0, "fabric", "NAME", &fields.fabric,
                             "fabric (default: the one that RAILWISE_DEVICE or RAILWISE_FABRIC names,\n"
                             "else default, else the only one in use)"));
  table.push_back(choiceOption<DeviceFormat>('f', "format", kFormats, &fields.format, "text or json"));
}

DeviceFabric::DeviceFabric(const char* command, const DeviceFabricOptions& options) {
  std::string name = options.fabric;
  if (name.empty()) {
    const auto machine = openDeviceMachine(command, {});
    if (!machine) return;
    name = machine->config.fabric;
  }
  auto joined = softdev::joinFabric(name);
  const bool nobody = !joined.ok() && joined.status().code == Code::kNoDevice;
  if (nobody && options.fabric.empty() && name == kUnnamed) {
    const std::set<std::string> others = softdev::fabricsInUse();
    if (others.size() == 1) {
      name = *others.begin();
      say("%s: on fabric %s, the only one in use", command, name.c_str());
      joined = softdev::joinFabric(name);
    } else if (!others.empty()) {
      say("%s: several fabrics are in use, choose one with --fabric: %s", command,
          railwise::joined(others).c_str());
      return;
    }
  }
  if (joined.ok()) {
    fabric_ = *joined;
  } else if (joined.status().code == Code::kNoDevice) {
    say("%s: no process is on fabric %s of user %s (processes are on it while they have a software device "
        "open)",
        command, name.c_str(), userName().c_str());
  } else {
    say("%s: cannot attach to fabric %s: the reason stands above", command, name.c_str());
  }
}

DeviceFabric::~DeviceFabric() {
  if (fabric_ != nullptr) softdev::detachFabric(fabric_);
}

}  // namespace railwise::cli
