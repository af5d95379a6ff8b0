#include "base/protocol_version.h"

namespace railwise {

std::string protocolText(const ProtocolVersions& versions) {
  const std::string oldest = std::to_string(versions.oldest);
  return versions.oldest == versions.newest ? oldest : oldest + " to " + std::to_string(versions.newest);
}

std::string protocolMismatch(const ProtocolVersions& other, const std::string& peer) {
  const bool older = other.newest < kProtocol.oldest;
  if (!older && other.oldest <= kProtocol.newest) return {};
  return peer + " speaks protocol version " + protocolText(other) + " of Railwise, this end " +
         protocolText(kProtocol) + ": upgrade Railwise on " + (older ? peer : "this node") +
         ", best on all nodes";
}

}  // namespace railwise
