// Arbitrary bytes as the fingerprints of nodes. Whatever is accepted can be written and read again.
#include <cstdlib>
#include <string_view>

#include "cli/fingerprint/parse.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  const auto nodes =
      railwise::cli::parseFingerprints(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!nodes.ok()) return 0;
  for (const auto& parsed : *nodes) {
    const auto again = railwise::cli::parseFingerprints(railwise::cli::jsonOf(parsed.node), "again");
    if (!again.ok() || again->size() != 1 ||
        railwise::cli::hashOf(again->at(0).node) != railwise::cli::hashOf(parsed.node))
      std::abort();
  }
  return 0;
}
