// A plugin of others finds its devices through libibverbs. On software devices it therefore runs behind the
// drop-in libibverbs.so.1, as with `railwise device run -- railwise COMMAND`. Main thread, before the first
// thread starts.
#pragma once

#include <string>

#include "cli/options/options.h"
#include "cli/plugin/plugin_loader.h"

namespace railwise::cli {

// The value of `railwise device run --sysfs` for a plugin that is not Railwise's. NCCL's own, and those that
// are made after it, read the kinds of RoCE's GIDs in /sys; nccl-rdma-sharp-plugins crashes where /sys does
// not have the device.
inline constexpr const char* kSysfsForOtherPlugins = "on";

// True if the plugin, which calls itself `name`, is to use software devices, knows none, and does not run
// behind the drop-in library yet. Without --device and RAILWISE_DEVICE that is so if it finds no device.
bool needsDropIn(const PluginOptions& options, const std::string& name);

// Runs `railwise COMMAND` with these arguments behind the drop-in library, in place of this process. Returns
// the exit status if that cannot be done.
int runBehindDropIn(const char* command, const PluginOptions& options, Args args);

}  // namespace railwise::cli
