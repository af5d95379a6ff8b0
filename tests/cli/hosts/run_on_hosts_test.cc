// Programs on many hosts at once; here all of them are this host.
#include "cli/hosts/run_on_hosts.h"

#include "tests/ok.h"

namespace railwise::cli {
namespace {

HostCommand shell(const std::string& host, const std::string& script) {
  return {host, {"/bin/sh", "-c", script}};
}

TEST(RunOnHosts, AnswersAreInOrderWhateverTheirTime) {
  const auto answers =
      runOnHosts({shell("a", "sleep 0.1; echo one"), shell("b", "echo two")}, {.at_once = 1});
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].host, "a");
  EXPECT_EQ(answers[0].out, "one\n");
  EXPECT_EQ(answers[1].out, "two\n");
  EXPECT_EQ(answers[1].error, "");
}

TEST(RunOnHosts, LongAnswersArriveWhole) {
  const auto answers = runOnHosts({shell("a", "head -c 3000000 /dev/zero; echo x >&2")}, {});
  EXPECT_EQ(answers[0].out.size(), 3000000U);
  EXPECT_EQ(answers[0].error, "");
}

TEST(RunOnHosts, WhoDoesNotEndIsKilledWithWhatItStarted) {
  const auto answers =
      runOnHosts({shell("a", "sleep 1000 & sleep 1000")}, {.time = std::chrono::milliseconds(100)});
  EXPECT_EQ(answers[0].error, "no answer within 0 s");
}

TEST(RunOnHosts, TooManyBytesAreAnError) {
  const auto answers = runOnHosts({shell("a", "cat /dev/zero")}, {.bytes = 1000});
  EXPECT_EQ(answers[0].error, "it answers with too many bytes");
}

TEST(RunOnHosts, FailuresSayWhatTheProgramSaid) {
  const auto answers = runOnHosts({shell("a", "echo first >&2; echo last >&2; exit 3"),
                                   shell("b", "echo no route >&2; exit 255"),
                                   {"c", {"/no/such/program"}}},
                                  {});
  EXPECT_EQ(answers[0].error, "'/bin/sh' ended with status 3: last");
  EXPECT_EQ(answers[1].error, "no route");
  EXPECT_HAS(answers[2].error, "--program PATH says where it is");
}

TEST(LaunchWords, PutTheHostWhereItBelongs) {
  EXPECT_EQ(launchWords("ssh {host} -v", "n1", {"p"}), (std::vector<std::string>{"ssh", "n1", "-v", "p"}));
  EXPECT_EQ(launchWords("ssh -v", "n1", {"p", "x"}), (std::vector<std::string>{"ssh", "-v", "n1", "p", "x"}));
  EXPECT_EQ(launchWords("", "n1", {"p"}), (std::vector<std::string>{"p"}));
}

}  // namespace
}  // namespace railwise::cli
