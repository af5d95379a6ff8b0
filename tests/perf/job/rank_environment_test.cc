#include "perf/job/rank_environment.h"

#include <map>

#include "tests/ok.h"

namespace railwise::cli {
namespace {

using Variables = std::map<std::string, std::string>;

Outcome<std::optional<RankIdentity>> identify(const Variables& variables, const std::string& address = "") {
  const auto lookUp = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found != variables.end() ? found->second.c_str() : nullptr;
  };
  return rankFromEnvironment(lookUp, address);
}

RankIdentity identityOf(const Variables& variables, const std::string& address = "") {
  const auto identity = identify(variables, address);
  EXPECT_TRUE(identity.ok() && *identity) << identity.error();
  return identity.ok() ? identity->value_or(RankIdentity()) : RankIdentity();
}

TEST(RankFromEnvironment, NobodyStartedUs) {
  const auto identity = identify({{"RANK", "0"}});
  ASSERT_TRUE(identity.ok()) << identity.error();
  EXPECT_FALSE(*identity);
}

TEST(RankFromEnvironment, OpenMpiOnOneHostMeetsOnLoopback) {
  Variables variables = {{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                         {"PMIX_NAMESPACE", "job-7"}};
  const auto one = identityOf(variables);
  EXPECT_EQ(one.rank, 1);
  EXPECT_EQ(one.size, 4);
  EXPECT_EQ(one.address.substr(0, 10), "127.0.0.1:");
  variables["OMPI_COMM_WORLD_RANK"] = "2";
  EXPECT_EQ(identityOf(variables).address, one.address);
  EXPECT_EQ(identityOf(variables).secret, one.secret);
  variables["PMIX_NAMESPACE"] = "job-8";
  EXPECT_NE(identityOf(variables).secret, one.secret);
}

// A number of a job can be guessed. Where there is a secret it counts.
TEST(RankFromEnvironment, ASecretOfTheJobIsTaken) {
  Variables variables = {
      {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"MASTER_ADDR", "gpu1"}};
  const auto bare = identityOf(variables);
  EXPECT_TRUE(bare.anonymous);
  for (const char* name : {"RAILWISE_PERF_SECRET", "OMPI_MCA_orte_precondition_transports"}) {
    Variables more = variables;
    more[name] = "2f1c9d0b7e";
    const auto identity = identityOf(more);
    EXPECT_FALSE(identity.anonymous) << name;
    EXPECT_HAS(identity.secret, "2f1c9d0b7e") << name;
    EXPECT_NE(identity.secret, bare.secret) << name;
  }
  variables["SLURM_JOB_ID"] = "7";
  EXPECT_FALSE(identityOf(variables).anonymous);
}

TEST(FabricOfJob, IsOneForItsRanksAndAnotherForEachJob) {
  const auto rank = [](const char* number, const char* job) {
    return identityOf({{"OMPI_COMM_WORLD_RANK", number},
                       {"OMPI_COMM_WORLD_SIZE", "4"},
                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                       {"PMIX_NAMESPACE", job}});
  };
  EXPECT_EQ(fabricOfJob(rank("0", "job-7")), fabricOfJob(rank("3", "job-7")));
  EXPECT_NE(fabricOfJob(rank("0", "job-7")), fabricOfJob(rank("0", "job-8")));
  EXPECT_LE(fabricOfJob(rank("0", "job-7")).size(), 32U) << "softdev::kMaxFabricName";
}

TEST(RankFromEnvironment, SeveralHostsNeedAnAddress) {
  const Variables variables = {{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}, {"MPI_LOCALNRANKS", "2"}};
  const std::string error = identify(variables).error();
  EXPECT_HAS(error, "--address HOST:PORT");
  EXPECT_EQ(identityOf(variables, "node1:4000").address, "node1:4000");
}

TEST(RankFromEnvironment, SlurmMeetsOnTheFirstNode) {
  Variables variables = {{"SLURM_PROCID", "3"},
                         {"SLURM_NTASKS", "8"},
                         {"SLURM_STEP_NODELIST", "gpu[03-06]"},
                         {"SLURM_STEP_NUM_NODES", "4"},
                         {"SLURM_JOB_ID", "99"}};
  EXPECT_EQ(identityOf(variables).rank, 3);
  EXPECT_EQ(identityOf(variables).address.substr(0, 6), "gpu03:");
  variables.erase("SLURM_STEP_NODELIST");
  variables["SLURM_LAUNCH_NODE_IPADDR"] = "10.1.2.3";
  EXPECT_EQ(identityOf(variables).address.substr(0, 9), "10.1.2.3:");
}

TEST(RankFromEnvironment, TorchUsesMasterPortUnlessTheStoreHasIt) {
  Variables variables = {
      {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "fe80::1"}, {"MASTER_PORT", "29500"}};
  EXPECT_EQ(identityOf(variables).address, "[fe80::1]:29500");
  variables["TORCHELASTIC_RUN_ID"] = "run";
  EXPECT_NE(identityOf(variables).address, "[fe80::1]:29500");
}

TEST(RankFromEnvironment, RefusesNonsense) {
  EXPECT_EQ(identify({{"RANK", "2"}, {"WORLD_SIZE", "2"}}).error(),
            "RANK=2 is not a rank from 0 to 1 (WORLD_SIZE=2)");
  EXPECT_EQ(identify({{"RANK", "0"}, {"WORLD_SIZE", "many"}}).error(),
            "WORLD_SIZE=many is not a number of ranks from 1 to 1024");
}

TEST(RankFromEnvironment, TheLauncherComesFirst) {
  const auto identity = identityOf({{kRankVariable, "1"},
                                    {kSizeVariable, "3"},
                                    {kAddressVariable, "127.0.0.1:5"},
                                    {kSecretVariable, "s"},
                                    {kLauncherVariable, "77"},
                                    {kFallbackVariable, "1"},
                                    {"RANK", "0"},
                                    {"WORLD_SIZE", "2"}});
  EXPECT_EQ(identity.rank, 1);
  EXPECT_EQ(identity.size, 3);
  EXPECT_EQ(identity.address, "127.0.0.1:5");
  EXPECT_EQ(identity.secret, "s");
  EXPECT_EQ(identity.launcher, 77);
  EXPECT_TRUE(identity.software_fallback);
}

TEST(FirstHost, ReadsSlurmLists) {
  EXPECT_EQ(firstHost("a"), "a");
  EXPECT_EQ(firstHost("a,b"), "a");
  EXPECT_EQ(firstHost("n[03-07,9],other"), "n03");
  EXPECT_EQ(firstHost("n[5]"), "n5");
  EXPECT_EQ(firstHost("rack[1-2]-ib,x"), "rack1-ib");
}

// Each process of torchrun has the rank of the srun that has started torchrun on its host.
TEST(RankFromEnvironment, TorchrunCountsBeforeWhatHasStartedIt) {
  const auto identity = identityOf({{"SLURM_PROCID", "1"},
                                    {"SLURM_NTASKS", "2"},
                                    {"SLURM_STEP_NUM_TASKS", "2"},
                                    {"RANK", "11"},
                                    {"WORLD_SIZE", "16"},
                                    {"MASTER_ADDR", "gpu1"},
                                    {"MASTER_PORT", "29500"}});
  EXPECT_EQ(identity.rank, 11);
  EXPECT_EQ(identity.size, 16);
}

// Kubeflow's PyTorchJob sets RANK and WORLD_SIZE for the whole pod: the number of the pod.
TEST(RankFromEnvironment, MpirunCountsBeforeTheRankOfThePod) {
  Variables variables = {{"RANK", "0"},
                         {"WORLD_SIZE", "2"},
                         {"MASTER_ADDR", "job-master-0"},
                         {"MASTER_PORT", "23456"},
                         {"OMPI_COMM_WORLD_RANK", "5"},
                         {"OMPI_COMM_WORLD_SIZE", "8"}};
  EXPECT_EQ(identityOf(variables).rank, 5);
  EXPECT_EQ(identityOf(variables).size, 8);
  variables["LOCAL_RANK"] = "0";  // torchrun, started by mpirun
  EXPECT_EQ(identityOf(variables).rank, 0);
  EXPECT_EQ(identityOf(variables).size, 2);
}

}  // namespace
}  // namespace railwise::cli
