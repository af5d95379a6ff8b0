// The versions of what two ends of a connection say to each other, from the handshake on
// (net/wireup/handshake.h). An end speaks several: those since the last change that an end of before cannot
// follow. Two ends talk if they have one in common.
#pragma once

#include <cstdint>
#include <string>

namespace railwise {

struct ProtocolVersions {
  uint16_t oldest;
  uint16_t newest;
  bool has(uint16_t version) const { return oldest <= version && version <= newest; }
};

// What this build speaks. A change of a message raises `newest`; if an end of before cannot read the message,
// it also raises `oldest`, and what is new is only said to an end that speaks it.
extern const ProtocolVersions kProtocol;

// "16", "16 to 17".
std::string protocolText(const ProtocolVersions& versions);
// Why this build cannot talk to an end that speaks `other`, with the end to upgrade; "": it can.
// `peer`: the host of that end.
std::string protocolMismatch(const ProtocolVersions& other, const std::string& peer);

}  // namespace railwise
