// Stands before src/base/protocol_spoken.cc in the link of a plugin that speaks other versions of the
// protocol.
#include "base/protocol_version.h"

namespace railwise {

const ProtocolVersions kProtocol = {OTHER_OLDEST, OTHER_NEWEST};

}  // namespace railwise
