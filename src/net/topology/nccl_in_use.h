// Which NCCL has loaded the plugin. Any thread.
#pragma once

#include <optional>

#include "topo/nccl_release.h"

namespace railwise::net {

// The release of the NCCL in this process, which its ncclGetVersion() tells. Nothing: no NCCL is found
// (another program uses the plugin, or NCCL is linked to it statically and hides its functions). The versions
// of the net API tell less than that: NCCL 2.30.3 to 2.31 ask for the same one.
std::optional<topo::NcclVersion> ncclInUse();

// The release whose rules the model of the machine follows (topo::chooseRules() with ncclInUse()). Logs the
// release of this process, and what of its rules is not known.
topo::NcclVersion rulesInUse();

}  // namespace railwise::net
