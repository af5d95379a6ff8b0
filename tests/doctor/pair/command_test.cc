// railwise doctor --pair and --hosts from outside, on software machines. Nothing here depends on how fast the
// computer is: a slowed rail is slower by a factor of more than ten.
#include <unistd.h>

#include <fstream>

#include "process.h"
#include "tests/ok.h"
#include "tests/scratch.h"

namespace railwise::cli {
namespace {

using Words = std::vector<std::string>;

// Two or three hosts with four InfiniBand rails each. Their speed is enforced, and so low that a busy
// computer reaches it.
const std::string kRails = ";count=4,link=ib,speed=2500,pacing=on";
const std::string kTwoHosts = "software:host A" + kRails + ";host B" + kRails;
const std::string kThreeHosts = kTwoHosts + ";host C" + kRails;

// The pair test with short measurements.
ProcessResult pairTest(Words args, const std::string& device, Words environment = {}) {
  args.insert(args.begin(), {"doctor", "--seconds=0.03"});
  environment.push_back("RAILWISE_DEVICE=" + device);
  return runProcess(RAILWISE_CLI, args, environment);
}

// "ssh" that makes a process on this machine play the host.
const std::string kPlay = "--launch=env RAILWISE_HOST={host}";

TEST(DoctorPair, HealthyHostsAreFine) {
  const auto result = succeeded(pairTest({"--pair"}, kTwoHosts));
  EXPECT_HAS(result.out, "2 hosts, 4 NIC pairs in 1 round");
  EXPECT_HAS(result.out, "soft3  soft3  4096");
  EXPECT_HAS(result.out, "all_reduce between these hosts");
}

TEST(DoctorPair, NcclsModelOfBothHosts) {
  const auto result = pairTest({"--pair"}, "software:@dgx");
  EXPECT_HAS(result.out,
             "at most 461.6 GB/s (NCCL 2.31.2's model of 2 hosts with 8 GPUs each, NVLSTree. The limit "
             "is the network")
      << result.err;
  const auto hidden = result.out.find("Not looked at:");
  ASSERT_NE(hidden, std::string::npos) << result.out;
  EXPECT_NE(result.out.find("latency", hidden), std::string::npos) << result.out;
  EXPECT_LACKS(result.out, "you get") << "software devices carry what the processor copies\n";
}

// The process that reports is none of the hosts, and has no machine of theirs.
TEST(DoctorPair, NcclsModelOfHostsThatAreOnlyCoordinated) {
  const test::ScratchFile file("hosts", "A\nB\n");
  const auto result = pairTest({"--hosts", file.path(), kPlay}, "software:@dgx");
  EXPECT_HAS(result.out, "at most 461.6 GB/s (NCCL 2.31.2's model of 2 hosts") << result.err;
  EXPECT_HAS(result.out, "the rules of NCCL 2.31.2");
}

TEST(DoctorPair, NcclsModelIsOfTheNicsThatAreMeasured) {
  const auto modelOf = [](const Words& environment) {
    const std::string out = pairTest({"--pair", "--nic", "=mlx5_0"}, "software:@dgx", environment).out;
    const std::size_t at = std::min(out.find("at most "), out.size());
    return out.substr(at, out.find(" GB/s", at) - at);
  };
  const std::string model = modelOf({});
  EXPECT_HAS(model, "at most ");
  EXPECT_LACKS(model, "461.6") << "with all eight";
  EXPECT_EQ(modelOf({"NCCL_IB_HCA=^=mlx5_0"}), model) << "--nic comes first";
}

TEST(DoctorPair, ASlowedRailIsNamed) {
  const auto result =
      endedWith(1, pairTest({"--pair"}, kTwoHosts + ";fault device=soft2 opcode=write delay=30ms"));
  EXPECT_HAS(result.out, "WARNING pair-slow-rail: A soft2 - B soft2: the rail is slower than its peers");
  EXPECT_HAS(result.out, "railwise device fault list");
  EXPECT_LACKS(result.out, "mlxlink");
}

TEST(DoctorPair, ABlackHoleIsNamedAndTheOthersAreMeasured) {
  const auto result =
      endedWith(2, pairTest({"--pair"}, kTwoHosts + ";fault host=A device=soft1 opcode=write drop"));
  EXPECT_HAS(result.out, "ERROR pair-no-reach: A soft1 - B soft1: writes do not arrive");
  EXPECT_HAS(result.out, "A soft1 -> B soft1: a write failed");
  EXPECT_HAS(result.out, "soft0  soft0  4096");
}

// What rail 0 to 3 of both hosts do not route: each to all others.
const std::string kRailsAlone =
    ";fault device=soft0 peer_device=soft1 drop;fault device=soft1 peer_device=soft2 drop"
    ";fault device=soft2 peer_device=soft3 drop;fault device=soft3 peer_device=soft0 drop"
    ";fault device=soft1 peer_device=soft0 drop;fault device=soft2 peer_device=soft1 drop"
    ";fault device=soft3 peer_device=soft2 drop;fault device=soft0 peer_device=soft3 drop";

TEST(DoctorPair, RailsThatRouteToEachOther) {
  const auto result = succeeded(pairTest({"--pair"}, kTwoHosts));
  EXPECT_HAS(result.out, "A soft3 - B soft0): NCCL_CROSS_NIC may stay as it is.");
}

TEST(DoctorPair, RailsThatDoNotRouteToEachOtherForbidCrossNic) {
  const auto result = endedWith(1, pairTest({"--pair"}, kTwoHosts + kRailsAlone));
  EXPECT_HAS(result.out, "NCCL_CROSS_NIC must be 0.");
  EXPECT_HAS(result.out, "WARNING pair-across-rails");
  EXPECT_LACKS(result.out, "pair-no-reach") << "within a rail all works\n";
  const auto told = succeeded(pairTest({"--pair"}, kTwoHosts + kRailsAlone, {"NCCL_CROSS_NIC=0"}));
  EXPECT_HAS(told.out, "NCCL_CROSS_NIC must be 0, and is.");
}

TEST(DoctorPair, ARouteThatIsMissingBetweenRailsIsNamed) {
  const auto result =
      endedWith(1, pairTest({"--pair"}, kTwoHosts + ";fault host=A device=soft1 peer_device=soft2 drop"));
  EXPECT_HAS(result.out, "no route A soft1 -> B soft2");
  EXPECT_LACKS(result.out, "A soft0 -> B soft1");
}

TEST(DoctorPair, AnMtuThatDiffersIsNamed) {
  const auto result = endedWith(
      1,
      pairTest(
          {"--pair"},
          "software:host A" + kRails +
              ";host B;count=3,link=ib,speed=2500,pacing=on;name=odd,link=ib,mtu=1024,speed=2500,pacing=on"));
  EXPECT_HAS(result.out, "WARNING pair-mtu: B odd: the MTU differs from its partner's");
  EXPECT_HAS(result.out, "active MTU: 1024, not 4096");
}

TEST(DoctorPair, AStorageNicThatOnlyOneHostHasIsNoError) {
  const auto result =
      pairTest({"--pair"}, "software:host A" + kRails + ";name=storage,link=roce,speed=2500;host B" + kRails);
  EXPECT_LACKS(result.out, "pair-link") << result.err;
  EXPECT_HAS(result.out, "A storage: no NIC of another host has its link (RoCE)");
}

TEST(DoctorPair, AQueuePairThatCannotBeConnectedIsAResult) {
  const auto result = endedWith(
      2, pairTest({"--pair"}, kTwoHosts + ";fault host=B device=soft3 verb=modify_qp nth=2 errno=EINVAL"));
  EXPECT_HAS(result.out, "pair-queue-pair: A soft3 - B soft3");
  EXPECT_HAS(result.out, "transition to RTR failed: Invalid argument");
}

TEST(DoctorPair, AnEndThatDiesInTheMiddleEndsTheTest) {
  EXPECT_HAS(endedWith(2, pairTest({"--pair"}, kTwoHosts + ";fault host=B opcode=write nth=40 kill")).err,
             "on host B) is gone");
}

TEST(DoctorPair, AHostIsStartedByTheLaunchCommand) {
  const auto result = succeeded(pairTest({"--pair", "B", kPlay, "--json"}, kTwoHosts, {"RAILWISE_HOST=A"}));
  EXPECT_HAS(result.out, "\"verdict\": \"fine\"");
  EXPECT_HAS(result.out, "\"a\": \"A soft0\"");
}

TEST(DoctorPair, SecondsOfManyDigitsAreTheSameAtBothEnds) {
  const auto result = succeeded(pairTest({"--pair", "--seconds", "0.0123456789"}, kTwoHosts));
}

TEST(DoctorPair, AHostThatCannotBeStartedIsNamed) {
  expectFailure(pairTest({"--pair", "node9", "--launch=false {host}"}, kTwoHosts), 2,
                "node9: 'false' ended with status 1 before the end was there");
}

TEST(DoctorPair, AProgramThatIsNotThereIsNamedWithTheOptionForIt) {
  expectFailure(pairTest({"--pair", "B", kPlay, "--program=/no/such/railwise"}, kTwoHosts), 2,
                "--program PATH says where it is");
}

TEST(DoctorPair, OfThreeHostsTheOddNicIsNamed) {
  const test::ScratchFile file("hosts", "# the job\nA\nB\nC\n");
  const auto result = endedWith(
      1, pairTest({"--hosts", file.path(), kPlay},
                  kThreeHosts + ";fault host=C device=soft2 opcode=write delay=30ms", {"RAILWISE_HOST=A"}));
  EXPECT_HAS(result.out, "WARNING pair-slow-rail: C soft2: the rail is slower");
  EXPECT_HAS(result.out, "3 hosts, 12 NIC pairs in 3 rounds");
  EXPECT_HAS(result.out, "-> C");
}

TEST(DoctorPair, WhoIsNotInTheFileOnlyCoordinates) {
  const test::ScratchFile file("hosts", "A\nB\n");
  const auto result = succeeded(pairTest({"--hosts", file.path(), kPlay}, kThreeHosts, {"RAILWISE_HOST=C"}));
  EXPECT_HAS(result.out, "A, B: fine");
}

TEST(DoctorPair, RanksOfMpirunAreEnds) {
  const auto rank = [](int number, const std::string& host) {
    return Words{"OMPI_COMM_WORLD_RANK=" + std::to_string(number),
                 "OMPI_COMM_WORLD_SIZE=2",
                 "OMPI_COMM_WORLD_LOCAL_SIZE=2",
                 "PMIX_NAMESPACE=pair-test-" + std::to_string(getpid()),
                 "RAILWISE_HOST=" + host,
                 "RAILWISE_DEVICE=" + kTwoHosts};
  };
  Process second(RAILWISE_CLI, {"doctor", "--pair", "--seconds=0.03"}, rank(1, "B"));
  const auto first = runProcess(RAILWISE_CLI, {"doctor", "--pair", "--seconds=0.03"}, rank(0, "A"));
  const auto other = second.wait();
  EXPECT_EQ(first.status, 0) << first.out << first.err;
  EXPECT_EQ(other.status, 0) << other.err;
  EXPECT_HAS(first.out, "A, B: fine");
  EXPECT_EQ(other.out, "");
}

TEST(DoctorPair, WritesAPage) {
  const test::ScratchFile page("hosts", "");
  const auto result = succeeded(pairTest({"--pair", "--html", page.path()}, kTwoHosts));
  std::ifstream file(page.path());
  const std::string html{std::istreambuf_iterator<char>(file), {}};
  EXPECT_HAS(html, "<td class=\"good\">");
  EXPECT_HAS(html, "</html>");
}

TEST(DoctorPair, FullMeasuresEveryNicWithEveryNic) {
  const auto result = succeeded(pairTest({"--pair", "--full", "--nic", "soft1,soft3"}, kTwoHosts));
  EXPECT_HAS(result.out, "soft1  soft3");
  EXPECT_HAS(result.out, "4 NIC pairs");
}

TEST(DoctorPair, IwarpIsConnectedByTheCommunicationManager) {
  const std::string rails = ";count=2,link=iwarp,speed=2500,pacing=on";
  const auto result = succeeded(pairTest({"--pair"}, "software:host A" + rails + ";host B" + rails));
  EXPECT_HAS(result.out, "soft1  soft1  4096  iWARP     0.");
}

TEST(DoctorPair, EnhancedConnectionsAreAskedForAtBothEnds) {
  const std::string rails = ";count=2,link=roce,speed=2500,pacing=on";
  const auto result =
      succeeded(pairTest({"--pair"}, "software:host A" + rails + ";host B" + rails + ",ece=off"));
  EXPECT_HAS(result.out, "ECE");
  EXPECT_HAS(result.out, " and none");
}

TEST(DoctorPair, GpuMemoryIsThatOfTheNearestGpu) {
  const auto result = pairTest({"--pair", "--gpu", "--nic", "mlx5_0,mlx5_1"}, "software:@dgx",
                               {"LD_LIBRARY_PATH=" FAKE_CUDA_FOLDER});
  EXPECT_NE(result.status, 2) << result.out << result.err;
  EXPECT_HAS(result.out, "A: data in the memory of the GPU nearest to each NIC");
  EXPECT_HAS(result.err, "fake CUDA: GPU 0000:1b:00.0");
  EXPECT_HAS(result.err, "fake CUDA: GPU 0000:43:00.0");
}

TEST(DoctorPair, WithoutAGpuTheMemoryOfTheHostIsUsedAndTheReasonSaid) {
  const auto result = pairTest({"--pair", "--gpu"}, kTwoHosts);  // these hosts have no GPU
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_HAS(result.out, "A: GPU memory: ");
}

TEST(DoctorPair, MistakesHaveClearErrors) {
  const auto error = [](const Words& args) {
    const auto result = endedWith(2, pairTest(args, kTwoHosts));
    return result.err;
  };
  EXPECT_HAS(error({"--pair", "a b"}), "'a b' is not the name of a host");
  EXPECT_HAS(error({"--pair", "--hosts", "x"}), "--pair and --hosts: give one of them");
  EXPECT_HAS(error({"--hosts", "/no/such"}), "/no/such: cannot be read: No such file");
  EXPECT_HAS(error({"--pair", "--seconds", "0"}), "a number of seconds from 0.001 to 60");
  EXPECT_HAS(error({"--pair", "--nic", "x;y"}), "--nic: only names");
}

TEST(DoctorPair, AHostWithoutDevicesIsAnError) {
  EXPECT_HAS(endedWith(2, pairTest({"--pair", "--nic", "nosuch"}, kTwoHosts)).out,
             "ERROR pair-no-device: A, B: the host has no RDMA device");
}

TEST(DoctorPair, AHostWithoutTheSoftwareDeviceNamesThePackage) {
  EXPECT_HAS(endedWith(2, pairTest({"--pair"}, "software:@dgx", {"RAILWISE_VERBS_DIR=/nowhere"})).out,
             "railwise-device");
}

}  // namespace
}  // namespace railwise::cli
