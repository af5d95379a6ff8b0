// Finds, opens and starts a network plugin as NCCL 2.30.7 does. It tries the name as it is, then
// libnccl-net-NAME.so. It takes the newest of the symbols ncclNetPlugin_v12 to _v6, and calls init, devices
// and getProperties(0). Main thread only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/dynamic_library.h"
#include "cli/options/options.h"
#include "cli/plugin/net_api.h"

namespace railwise::cli {

// The values of --plugin, --api, --device and --verbose, for all subcommands that load a plugin.
struct PluginOptions {
  std::string plugin;  // empty or "railwise": Railwise's own plugin
  int api = 0;         // 0: the newest version that the plugin exports
  std::string device = "auto";
  bool verbose = false;
};
void addPluginOptions(std::vector<Option>& options, PluginOptions& fields);
// The option --api alone.
Option apiOption(std::string text, int* version);

// The names that NCCL would dlopen for NCCL_NET_PLUGIN=`name`, in order.
std::vector<std::string> pluginFileNames(const std::string& name);
// The path of this process's executable; "" if the system does not report it.
std::string executablePath();
// True for "" and "railwise": the plugin that belongs to this executable.
bool namesOwnPlugin(const std::string& name);
// The path of Railwise's own plugin beside this command; "": it is not there.
std::string ownPluginFile();

struct LoadedPlugin {
  DynamicLibrary library;  // comes first, so that it outlives `api`
  std::string path;
  std::unique_ptr<NetApi> api;
};
// Errors: kInvalidUsage if the plugin lacks the requested API version, otherwise kSystem.
Outcome<LoadedPlugin> loadPlugin(const PluginOptions& options);

// Calls init, devices and getProperties(0) in NCCL's order. Returns the number of devices, at least 1.
Outcome<int> startPlugin(NetApi& api, uint64_t comm_id);

}  // namespace railwise::cli
