#include "perf/job/own_fabric.h"

#include <cstdint>
#include <cstdlib>

namespace railwise::tools {

void useOwnFabric(const std::string& name) {
  constexpr const char* kFabricVariable = "RAILWISE_FABRIC";
  const char* const named = std::getenv(kFabricVariable);
  if (named == nullptr || *named == '\0') setenv(kFabricVariable, name.c_str(), 1);
}

// FNV-1a of what the ranks have in common: the rendezvous, and what tells it from another job's.
std::string fabricOfJob(const RankIdentity& rank) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : rank.address + "/" + rank.secret)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return "job" + std::to_string(hash);
}

}  // namespace railwise::tools
