// A file of its own: tests link another one, and have the plugin of a later version
// (tests/plugin/neighbours).
#include "base/protocol_version.h"

namespace railwise {

const ProtocolVersions kProtocol = {16, 16};

}  // namespace railwise
