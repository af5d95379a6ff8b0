// Finds, opens and starts a net plugin as NCCL 2.30.7 does: the name verbatim, then libnccl-net-NAME.so; the
// newest ncclNetPlugin_v12 .. _v6 symbol wins; init, devices, getProperties(0). Main thread only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/dynamic_library.h"
#include "cli/options/options.h"
#include "cli/plugin/net_api.h"

namespace railwise::tools {

// What --plugin, --api, --device and --verbose say; shared by the subcommands that load a plugin.
struct PluginOptions {
  std::string plugin;  // empty: railwise's own
  int api = 0;         // 0: the newest that the plugin exports
  std::string device = "auto";
  bool verbose = false;
};
void addPluginOptions(std::vector<Option>& options, PluginOptions& fields);
// --api by itself.
Option apiOption(std::string text, int* version);

// The names that NCCL would dlopen for NCCL_NET_PLUGIN=`name`, in order.
std::vector<std::string> pluginFileNames(const std::string& name);
// Of this process's program; "" when the system does not tell.
std::string executablePath();
// Where railwise's own plugin may lie next to an executable at `exe`, in order; the last is a bare name.
std::vector<std::string> ownPluginPaths(const std::string& exe);

struct LoadedPlugin {
  DynamicLibrary library;  // first, so that it outlives `api`
  std::string path;
  std::unique_ptr<NetApi> api;
};
// Errors: kInvalidUsage when the plugin lacks the API version that was asked for, else kSystem; `error` says
// why.
Result<LoadedPlugin> loadPlugin(const PluginOptions& options, std::string* error);

// init, devices, getProperties(0) in NCCL's order. The answer is the number of devices, at least 1.
Result<int> startPlugin(NetApi& api, uint64_t comm_id, std::string* error);

}  // namespace railwise::tools
