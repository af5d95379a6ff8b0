// Defaults that depend on the whole machine: GUIDs, GID tables, network interfaces, shared PCIe links.
#pragma once

#include <string>

#include "base/status.h"
#include "softdev/config/description.h"

namespace railwise::softdev {

// Names the host that the text did not describe, and fills in the values that the text left out. These values
// are different for every device of every host. The same text and host name give the same values in every
// process. `file` is for messages. If the parts do not fit together: one WARN and kInvalidUsage.
Status completeMachine(MachineConfig& machine, const std::string& host_name, const std::string& file);

}  // namespace railwise::softdev
