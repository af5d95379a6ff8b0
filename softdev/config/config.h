// Parses the text that describes the devices of this process and the machines that the devices belong to
// (description.h). docs/software-device.md, "Configuration", has all keys. In short: the text is a list of
// stanzas separated by ';' (in a file also by line ends). A stanza is a list of key=value separated by ','
// (in a file also by spaces; '#' begins a comment). The first word of a stanza says what the stanza
// describes:
//   device (or none)   an RDMA device: port keys (speed, link, gid ...; portN.KEY for one port), device keys
//   host NAME          the following devices, GPUs and bridges are its own; like=HOST copies another
//   gpu, nvswitch      a PCI function of the host, and what NVML reports for it
//   bridge             a PCI function of the host, for /sys
//   fault RULE         stored unparsed, for the fault injector
// A stanza describes no device if every key of it concerns the process (fabric, host, seed, fault) or the
// mode of devices (engine, pacing ...). Such a stanza applies to all devices.
// Text that begins with '/', './' or '@' names a file ('@': a shipped machine, machines.h). '#HOST' may
// follow the name, then ';' and more stanzas.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "softdev/config/description.h"

namespace railwise::softdev {

// Parses `text` (null or "": defaults). `host` is RAILWISE_HOST ("": not set): the host that this process
// plays, or, if the text describes no host, the name of this computer. `fabric` is RAILWISE_FABRIC ("": not
// set): the fabric, if the text names none. A mistake in the text gives one WARN and kInvalidUsage.
Result<MachineConfig> parseMachine(const char* text, std::string_view host = {},
                                   std::string_view fabric = {});
// Like parseMachine(), for text in the format of a file. Messages call the text `name`.
Result<MachineConfig> parseMachineText(std::string_view text, const std::string& name,
                                       std::string_view host = {});
Result<Config> parseConfig(const char* text, std::string_view host = {}, std::string_view fabric = {});

}  // namespace railwise::softdev
