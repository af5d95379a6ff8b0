// Arbitrary bytes as the fingerprints of nodes. Whatever is accepted can be written and read again.
#include <cstdlib>
#include <string_view>

#include "doctor/fingerprint/fingerprint.h"

namespace fingerprint = railwise::doctor::fingerprint;

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  const auto nodes =
      fingerprint::parseFingerprints(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!nodes.ok()) return 0;
  for (const auto& parsed : *nodes) {
    const auto again = fingerprint::parseFingerprints(fingerprint::jsonOf(parsed.node), "again");
    if (!again.ok() || again->size() != 1 ||
        fingerprint::hashOf(again->at(0).node) != fingerprint::hashOf(parsed.node))
      std::abort();
  }
  return 0;
}
