#include "cli/device/root.h"

#include "cli/device/machine.h"
#include "cli/device/tree.h"

namespace railwise::tools {

std::unique_ptr<topo::FileTree> deviceRoot(const char* command, const std::string& machine,
                                           const std::string& host) {
  DeviceMachineOptions options;
  options.machine = machine;
  options.host = host;
  const auto opened = openDeviceMachine(command, options);
  if (!opened) return nullptr;
  return std::make_unique<topo::MemoryTree>(deviceTree(opened->config.host()));
}

}  // namespace railwise::tools
