// railwise doctor from outside: the text, the JSON, the exit status, reports, and mistakes on the command
// line.

#include <algorithm>
#include <filesystem>

#include "process.h"
#include "scratch.h"
#include "tests/ok.h"

namespace railwise::cli {
namespace {

using test::Scratch;
using Args = std::vector<std::string>;

ProcessResult doctor(Args args, const std::vector<std::string>& environment = {}) {
  args.insert(args.begin(), "doctor");
  return runProcess(RAILWISE_CLI, args, environment);
}

// On the first host of a software machine.
ProcessResult doctorOn(const std::string& machine, const Args& args) {
  Args all = {"device", "run", "--machine", machine, "--", RAILWISE_CLI, "doctor", "--counters-for", "0"};
  all.insert(all.end(), args.begin(), args.end());
  return runProcess(RAILWISE_CLI, all);
}

TEST(DoctorCommand, AHealthySoftwareMachineIsFine) {
  for (const char* machine : {"dgx", "asymmetric", "dual-port", "laptop", "nvlink-mesh"}) {
    // The computer that runs the test has limits of its own.
    const ProcessResult result = succeeded(doctorOn(machine, {"--only", "rdma,gpudirect,topology"}));
    EXPECT_HAS(result.out, ": fine\n") << machine << "\n";
    EXPECT_HAS(result.out, "Looked at:");
    EXPECT_HAS(result.out, "RDMA port");
  }
}

TEST(DoctorCommand, NamesThePortThatIsDown) {
  const ProcessResult result =
      endedWith(2, doctor({"--machine", "link=roce,count=2,port_state=down", "--only", "port-state"}));
  EXPECT_HAS(result.out, "worst: ");
  EXPECT_HAS(result.out, "port-state");
}

TEST(DoctorCommand, TheJsonHasTheVerdict) {
  const ProcessResult result = succeeded(doctorOn("dgx", {"--json", "--only", "rdma"}));
  EXPECT_HAS(result.out, "\"verdict\": \"fine\"");
  EXPECT_HAS(result.out, "\"findings\": []");
  EXPECT_HAS(result.out, "\"schema\": \"railwise-doctor\"");
}

TEST(DoctorCommand, ListsItsChecks) {
  const ProcessResult result = succeeded(doctor({"--list"}));
  for (const char* check : {"rdma-nodes", "memlock", "hidden-tree", "plugin"}) EXPECT_HAS(result.out, check);
}

TEST(DoctorCommand, TellsOfATopologyFile) {
  const Scratch scratch;
  const std::string bad =
      scratch.file("bad.xml", "<system version=\"1\">\n  <cpu numaid=\"0\">\n</system>\n");
  const ProcessResult result = endedWith(2, doctor({bad}));
  EXPECT_HAS(result.out, "topology-file");
  EXPECT_HAS(result.out, bad + ":");
}

TEST(DoctorCommand, AListThatFailsInitFailsItWithATopologyFileToo) {
  const std::string file = RAILWISE_SOURCE_DIR "/tests/topo/machines/synthetic/dgx1v.xml";
  EXPECT_EQ(doctor({file}).status, 0);
  const ProcessResult result = endedWith(2, doctor({file}, {"NCCL_ALGO=Foo"}));
  EXPECT_HAS(result.out, "\"Foo\" is none of Tree, Ring");
  EXPECT_HAS(result.out, "unset NCCL_ALGO");
}

// What a pipe gives is looked at before it is read: a topology file is one, and a log is one, under any name.
TEST(DoctorCommand, APipeIsWhatItGives) {
  const Scratch scratch;
  const std::string log = scratch.file("log", "node1:1:1 [0] NCCL INFO NCCL version 2.30.7+cuda13.0\n");
  const std::string xml = RAILWISE_SOURCE_DIR "/tests/topo/machines/gb200.xml";
  const std::string command = RAILWISE_CLI " doctor ";
  for (const auto& [file, beginning] : {std::pair{xml, ": fine"}, {log, "1 log, "}}) {
    for (const std::string& given :
         {command + "<(cat " + file + ")", "cat " + file + " | " + command + "-", command + "- <" + file}) {
      const ProcessResult result = runProcess("/bin/bash", {"-c", given});
      EXPECT_HAS(result.out.substr(0, result.out.find('\n')), beginning) << given << "\n"
                                                                         << result.out << result.err;
    }
  }
}

TEST(DoctorCommand, AReportFindsTheSameElsewhere) {
  const Scratch scratch;
  const std::string report = scratch.path("report.tar.gz");
  const ProcessResult here = doctorOn("cloud-vm", {"--report", report});
  ASSERT_TRUE(std::filesystem::exists(report)) << here.err;
  EXPECT_HAS(here.err, "--mask");
  const ProcessResult there = doctor({"--root", report});
  EXPECT_EQ(there.status, here.status);
  const auto findings = [](const std::string& out) {
    return out.substr(std::min(out.find('\n'), out.size()));
  };
  EXPECT_EQ(findings(there.out), findings(here.out));
}

TEST(DoctorCommand, AMaskedReportFindsTheSameToo) {
  const Scratch scratch;
  const std::string report = scratch.path("report.tar.gz");
  const ProcessResult here = doctor({"--machine", "link=roce,count=2", "--report", report, "--mask"});
  const ProcessResult there = doctor({"--root", report});
  EXPECT_EQ(there.status, here.status) << here.out << there.out;
}

TEST(DoctorCommand, WarnsOfAMisspeltSetting) {
  EXPECT_HAS(endedWith(1, doctor({"--only", "settings", "--counters-for", "0"}, {"NCCL_IB_HCS=mlx5_0"})).out,
             "NCCL_IB_HCA");
}

TEST(DoctorCommand, StrictTakesAWarningForAnError) {
  const Args warned = {"--only", "settings", "--counters-for", "0", "--strict"};
  EXPECT_EQ(doctor(warned, {"NCCL_IB_HCS=mlx5_0"}).status, 2);
  EXPECT_EQ(doctor(warned).status, 0);
}

// A node whose NICs are all gone must not pass.
TEST(DoctorCommand, APreflightWantsAnRdmaDevice) {
  std::error_code none;
  if (std::filesystem::directory_iterator("/sys/class/infiniband", none) !=
      std::filesystem::directory_iterator())
    GTEST_SKIP() << "this machine has RDMA devices";
  EXPECT_EQ(doctor({"--only", "rdma-devices", "--counters-for", "0"}).status, 0);
  EXPECT_HAS(endedWith(2, doctor({"--only", "rdma-devices", "--counters-for", "0", "--strict"})).out,
             "this machine has no RDMA device");
  EXPECT_EQ(
      doctor({"--only", "rdma-devices", "--counters-for", "0", "--strict"}, {"RAILWISE_DEVICE=software"})
          .status,
      0);
}

TEST(DoctorCommand, VariablesOfThisMachineAreNotedForAnother) {
  const ProcessResult result =
      doctor({"--machine", "cloud-vm"}, {"NCCL_TOPO_FILE=/x/topo.xml", "RAILWISE_TOPOLOGY=auto"});
  EXPECT_HAS(result.out, "hidden-tree");
  EXPECT_LACKS(result.out, "not set");
  EXPECT_HAS(result.err, "NCCL_TOPO_FILE=/x/topo.xml is this machine's: not used here");
  EXPECT_HAS(result.err, "RAILWISE_TOPOLOGY=auto is this machine's: not used here");
  // The model of the paths obeys NCCL_IB_HCA, and so do the checks.
  EXPECT_HAS(doctor({"--machine", "dgx"}, {"NCCL_IB_HCA=mlx5_9"}).out, "ERROR hca-selection");
}

TEST(DoctorCommand, MistakesAreTold) {
  const auto says = [](const Args& args, const std::string& part) {
    EXPECT_HAS(endedWith(2, doctor(args)).err, part);
  };
  says({"--only", "memlok"}, "railwise doctor --list");
  says({"no-such-file.xml"}, "no-such-file.xml: No such file or directory");
  says({"a.xml", "--root", "/tmp"}, "two machines");
  says({"a.xml", "--manifest", "b.json"}, "a manifest is of a machine");
  says({"a.xml", "--save-manifest", "-"}, "a manifest is of a machine");
  says({"--manifest", "/dev/zero"}, "/dev/zero: more than ");
  says({"--root", "/no/such/folder"}, "/no/such/folder");
  says({"--mask"}, "--report");
  says({"--report", "/no/such/folder/x.tar.gz", "--machine", "dgx"}, "/no/such/folder/x.tar.gz");
}

}  // namespace
}  // namespace railwise::cli
