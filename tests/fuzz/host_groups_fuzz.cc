// Arbitrary bytes as a table of hosts, as Slurm's topology.conf, and as a list of hosts.
#include <cstdlib>
#include <string_view>

#include "gpu/choose/hosts.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto& groups :
       {railwise::gpu::parseHostTable(text, "fuzz"), railwise::gpu::parseSlurmTopology(text, "fuzz")})
    if (groups.ok() && groups->groups() > static_cast<int>(groups->group_of.size())) std::abort();
  (void)railwise::gpu::expandHosts(text);
  return 0;
}
