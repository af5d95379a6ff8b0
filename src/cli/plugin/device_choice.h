// The option --device: chooses the kind of device that the plugin uses, by setting RAILWISE_DEVICE before the
// plugin is loaded. "auto" tries the plugin's init in a short-lived child process, so that a failed attempt
// leaves nothing behind in this process. Main thread, before the first thread starts.
#pragma once

#include "cli/plugin/plugin_loader.h"

namespace railwise::cli {

inline constexpr const char* kSoftwareFallbackText =
    "no RDMA device on this machine: using the built-in software device (RAILWISE_DEVICE=software)";

// For --device auto if RAILWISE_DEVICE is not set: true if the plugin's init fails without it and succeeds
// with RAILWISE_DEVICE=software. Always false for other values of --device.
bool needsSoftwareDevice(const PluginOptions& options);

// Sets RAILWISE_DEVICE as --device asks. `software_fallback` is the result of needsSoftwareDevice().
void applyDevice(const PluginOptions& options, bool software_fallback);

}  // namespace railwise::cli
