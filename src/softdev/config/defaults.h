// What follows from a machine as a whole: GUIDs, GID tables, network interfaces, shared PCIe links.
#pragma once

#include <string>

#include "base/status.h"
#include "softdev/config/description.h"

namespace railwise::softdev {

// Names the host that was not described, and fills in what the text left out, different for every device of
// every host. The same text and host name give the same in every process. `file` is for messages. One WARN
// and kInvalidUsage when the parts do not fit together.
Status completeMachine(MachineConfig& machine, const std::string& host_name, const std::string& file);

}  // namespace railwise::softdev
