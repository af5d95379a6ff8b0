// railwise version, from outside.

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/protocol_version.h"
#include "process.h"
#include "tests/ok.h"
#include "topo/nccl_release.h"

namespace railwise::cli {
namespace {

TEST(Version, JsonHasWhatPeopleAskFor) {
  for (const char* name : {"version", "--version"}) {
    const auto result = succeeded(runProcess(RAILWISE_CLI, {name, "--json"}));
    const auto answer = nlohmann::json::parse(result.out);
    EXPECT_EQ(answer.at("name"), "railwise");
    EXPECT_EQ(answer.at("version"), RAILWISE_VERSION);
    EXPECT_TRUE(answer.at("commit").is_null() || answer.at("commit").is_string());
    EXPECT_FALSE(answer.at("build_type").get<std::string>().empty());
    EXPECT_EQ(answer.at("protocol").at("oldest"), kProtocol.oldest);
    EXPECT_EQ(answer.at("protocol").at("newest"), kProtocol.newest);
    EXPECT_EQ(answer.at("net_api"), (nlohmann::json{{"oldest", 6}, {"newest", 12}}));
    EXPECT_EQ(answer.at("rma_api"), (nlohmann::json{{"oldest", 13}, {"newest", 16}}));
    EXPECT_EQ(answer.at("gin_api"), (nlohmann::json{{"oldest", 11}, {"newest", 11}}));
    EXPECT_EQ(answer.at("tuner_api"), (nlohmann::json{{"oldest", 2}, {"newest", 6}}));
    EXPECT_EQ(answer.at("nccl_releases").front(), "2.13.4");
    EXPECT_EQ(answer.at("nccl_releases").back(), topo::ncclVersionName(topo::NcclVersion::kNewest));
  }
}

TEST(Version, TheTextHasProtocolAndCommit) {
  const auto text = runProcess(RAILWISE_CLI, {"version"});
  EXPECT_HAS(text.out, "\nprotocol " + protocolText(kProtocol) + "\n");
  const auto commit = nlohmann::json::parse(runProcess(RAILWISE_CLI, {"version", "--json"}).out).at("commit");
  const bool built_from_git = std::filesystem::exists(RAILWISE_SOURCE_DIR "/.git");
  EXPECT_EQ(commit.is_string(), built_from_git) << "an archive has none";
  if (commit.is_null()) EXPECT_LACKS(text.out, "commit");
  else EXPECT_HAS(text.out, "\ncommit " + commit.get<std::string>() + "\n");
}

TEST(Version, HelpAndMistakes) {
  EXPECT_EQ(runProcess(RAILWISE_CLI, {"version", "--help"}).out.substr(0, 24), "usage: railwise version ");
  expectFailure(runProcess(RAILWISE_CLI, {"--version", "--jsn"}), 2, "did you mean --json?");
}

}  // namespace
}  // namespace railwise::cli
