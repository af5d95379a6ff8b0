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
#include "cli/plugin/rma_api.h"

namespace railwise::cli {

// The values of --plugin, --api, --device and --verbose, for all subcommands that load a plugin.
struct PluginOptions {
  std::string plugin;  // empty or "railwise": Railwise's own plugin
  int api = 0;         // 0: the newest version that the plugin exports
  std::string device = "auto";
  bool verbose = false;
  // The longest that the plugin may take to start in a child process. Opening every RDMA device of a large
  // machine takes a few seconds at most.
  int start_limit_s = 30;
};
void addPluginOptions(std::vector<Option>& options, PluginOptions& fields);
// The option --api is for the tables of one-sided communication, too.
void addPluginAndRmaOptions(std::vector<Option>& options, PluginOptions& fields);
// The option --api alone, for versions up to `newest`.
Option apiOption(std::string text, int* version, int newest = kNewestApi);

// The path of this process's executable; "" if the system does not report it.
std::string executablePath();
// True for "" and "railwise": the plugin that belongs to this executable.
bool namesOwnPlugin(const std::string& name);
// The path of Railwise's own plugin beside this command; "": it is not there.
std::string ownPluginFile();

template <typename Api>
struct Loaded {
  DynamicLibrary library;  // comes first, so that it outlives `api`
  std::string path;
  std::unique_ptr<Api> api;
};
using LoadedPlugin = Loaded<NetApi>;
using LoadedRma = Loaded<RmaApi>;
// Errors: kInvalidUsage if the plugin lacks the requested API version, otherwise kSystem.
Outcome<LoadedPlugin> loadPlugin(const PluginOptions& options);
// The table of one-sided communication of the library: the newest of ncclRmaPlugin_v16 to _v13.
Outcome<LoadedRma> loadRma(const PluginOptions& options);

// Calls init, devices and getProperties(0) in NCCL's order. Returns the number of devices, at least 1.
Outcome<int> startPlugin(NetApi& api, uint64_t comm_id);
// Calls init and devices. Returns the number of devices, at least 1.
Outcome<int> startRma(RmaApi& api, uint64_t comm_id);

// The option --device: chooses the kind of device that the plugin uses, by setting RAILWISE_DEVICE before the
// plugin is loaded; and the fabric of software devices. "auto" tries the plugin's init in a short-lived child
// process, so that a failed attempt leaves nothing behind in this process. It is an error if the plugin hangs
// there. Main thread, before the first thread starts.

inline constexpr const char* kSoftwareFallbackText =
    "no RDMA device on this machine: using the software device (RAILWISE_DEVICE=software)";

// For --device auto if RAILWISE_DEVICE is not set: true if the plugin's init fails without it and succeeds
// with RAILWISE_DEVICE=software. Always false for other values of --device.
Outcome<bool> needsSoftwareDevice(const PluginOptions& options);

// True if the plugin's init succeeds with the devices that it finds by itself. The plugin is tried in a child
// process.
Outcome<bool> startsByItself(const PluginOptions& options);

// Gives what runs on software devices a fabric of its own, unless the user names a fabric. So it cannot meet
// other programs of the user, whose devices may have the same addresses. Sets the fabric of this process and
// of its child processes to `name`, if neither RAILWISE_FABRIC nor the configuration of the devices names
// one.
void useOwnFabric(const std::string& name);

// Sets RAILWISE_DEVICE as --device asks. `software_fallback` is the result of needsSoftwareDevice().
void applyDevice(const PluginOptions& options, bool software_fallback);

// A plugin of others finds its devices through libibverbs. On software devices it therefore runs behind the
// drop-in libibverbs.so.1, as with `railwise device run -- railwise COMMAND`. Main thread, before the first
// thread starts.

// The value of `railwise device run --sysfs` for a plugin that is not Railwise's. NCCL's own, and those that
// are made after it, read the kinds of RoCE's GIDs in /sys; nccl-rdma-sharp-plugins crashes where /sys does
// not have the device.
inline constexpr const char* kSysfsForOtherPlugins = "on";

// True if the plugin, which calls itself `name`, is to use software devices, knows none, and does not run
// behind the drop-in library yet. Without --device and RAILWISE_DEVICE that is so if it finds no device.
Outcome<bool> needsDropIn(const PluginOptions& options, const std::string& name);

// Runs `railwise COMMAND` with these arguments behind the drop-in library, in place of this process. Returns
// the exit status if that cannot be done.
int runBehindDropIn(const char* command, const PluginOptions& options, Args args);

}  // namespace railwise::cli
