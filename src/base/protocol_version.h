// The versions of what two ends of a connection say to each other, from the handshake on
// (net/wireup/handshake.h). An end may speak several; two ends talk if they have one in common.
#pragma once

#include <cstdint>
#include <string>

namespace railwise {

struct ProtocolVersions {
  uint16_t oldest;
  uint16_t newest;
  bool has(uint16_t version) const { return oldest <= version && version <= newest; }
};

// What this build speaks. A change of a message raises `newest`, and an end says what is new only to an end
// that speaks it: the request has the version that both speak. `oldest` is raised when an old version is
// given up.
extern const ProtocolVersions kProtocol;

// "16", "16 to 17".
std::string protocolText(const ProtocolVersions& versions);
// Why this build cannot talk to an end that speaks `other`, with the end to upgrade; "": it can.
// `peer`: the host of that end.
std::string protocolMismatch(const ProtocolVersions& other, const std::string& peer);

}  // namespace railwise
