// Parses the text that describes the devices of this process and the machines they belong to (description.h).
// All keys: docs/software-device.md, "Configuration". In short: stanzas separated by ';' (in a file also by
// lines), each a list of key=value separated by ',' (in a file also by spaces, with '#' before a comment). A
// first word tells what a stanza describes:
//   device (or none)   an RDMA device: port keys (speed, link, gid ...; portN.KEY for one port), device keys
//   host NAME          the devices, GPUs and bridges that follow are this host's; like=HOST copies another
//   gpu, nvswitch      a PCI function of the host, and what NVML says of it
//   bridge             a PCI function of the host, for /sys
//   fault RULE         kept as it is for the fault injector
// A stanza of which every key concerns the process (fabric, host, seed, fault) or the mode of its devices
// (engine, pacing ...) describes no device: it holds for all of them. Text that begins with '/', './' or '@'
// names a file, or with '@' a shipped machine (machines.h), then '#HOST' if wanted, then ';' and more
// stanzas.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "softdev/config/description.h"

namespace railwise::softdev {

// Parses `text` (null or "": defaults). `host` is RAILWISE_HOST ("": not set): the host to play, or, where
// the text names none, what this computer is called. `fabric` is RAILWISE_FABRIC ("": not set): the fabric
// where the text names none. On a mistake one WARN and kInvalidUsage.
Result<MachineConfig> parseMachine(const char* text, std::string_view host = {},
                                   std::string_view fabric = {});
// The same for text in the format of a file; `name` stands for it in messages.
Result<MachineConfig> parseMachineText(std::string_view text, const std::string& name,
                                       std::string_view host = {});
Result<Config> parseConfig(const char* text, std::string_view host = {}, std::string_view fabric = {});

}  // namespace railwise::softdev
