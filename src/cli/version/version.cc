#include <cstdio>
#include <string>
#include <vector>

#include "base/protocol_version.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "nccl/versions.h"
#include "topo/nccl_release.h"
// Made by the build: RAILWISE_COMMIT, "" where it is not known.
#include "railwise_commit.h"

namespace railwise::cli {
namespace {

constexpr const char* kHelp =
    "usage: railwise version [--json]\n\n"
    "The version, those of NCCL's network and RMA (one-sided) plugin APIs, that of the protocol between two "
    "ends of a connection (two nodes of a job need one in common), and the commit, if it was built from git. "
    "--json adds the kind of build, NCCL's GIN and tuner APIs and the releases of NCCL that topo and explain "
    "know.\n\n";

std::string apiText(int oldest, int newest) {
  return "{\"oldest\": " + std::to_string(oldest) + ", \"newest\": " + std::to_string(newest) + "}";
}

std::string jsonText() {
  const std::string commit = RAILWISE_COMMIT;
  std::string releases;
  for (const topo::NcclVersion release : topo::knownNcclReleases())
    releases += (releases.empty() ? "\"" : ", \"") + topo::ncclVersionName(release) + "\"";
  return "{\n  \"name\": \"railwise\",\n  \"version\": \"" RAILWISE_VERSION "\",\n  \"commit\": " +
         (commit.empty() ? "null" : "\"" + commit + "\"") +
         ",\n  \"build_type\": \"" RAILWISE_BUILD_TYPE "\",\n  \"protocol\": " +
         apiText(kProtocol.oldest, kProtocol.newest) +
         ",\n  \"net_api\": " + apiText(kOldestApi, kNewestApi) +
         ",\n  \"rma_api\": " + apiText(kOldestRmaApi, kNewestRmaApi) +
         ",\n  \"gin_api\": " + apiText(kGinApi, kGinApi) +
         ",\n  \"tuner_api\": " + apiText(kOldestTuner, kNewestTuner) + ",\n  \"nccl_releases\": [" +
         releases + "]\n}\n";
}

}  // namespace

int versionCommand(Args args) {
  bool json = false;
  int status = kExitOk;
  const std::vector<Option> table = {flagOption(0, "json", &json, "print all of it as JSON")};
  if (!parseOrLeave("version", table, args, kHelp, 0, &status)) return status;
  if (json) return writeOutput("version", "", jsonText());
  const std::string commit = RAILWISE_COMMIT;
  std::printf("railwise %s (NCCL net plugin API v%d to v%d, RMA plugin API v%d to v%d)\nprotocol %s\n",
              RAILWISE_VERSION, kOldestApi, kNewestApi, kOldestRmaApi, kNewestRmaApi,
              protocolText(kProtocol).c_str());
  if (!commit.empty()) std::printf("commit %s\n", commit.c_str());
  return kExitOk;
}

}  // namespace railwise::cli
