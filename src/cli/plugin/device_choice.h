// --device: which kind of device the plugin will use, by setting RAILWISE_DEVICE before it is loaded. "auto"
// tries the plugin's init in a short-lived child process, so that nothing of a failed attempt stays in this
// one. Main thread, before the first thread starts.
#pragma once

#include "cli/plugin/plugin_loader.h"

namespace railwise::tools {

inline constexpr const char* kSoftwareFallbackText =
    "no RDMA device on this machine: using the built-in software device (RAILWISE_DEVICE=software)";

// For --device auto with RAILWISE_DEVICE unset: true when the plugin's init fails as it is and succeeds with
// RAILWISE_DEVICE=software. Always false for any other --device.
bool needsSoftwareDevice(const PluginOptions& options);

// Sets RAILWISE_DEVICE as --device asks; `software_fallback` is needsSoftwareDevice()'s answer.
void applyDevice(const PluginOptions& options, bool software_fallback);

}  // namespace railwise::tools
