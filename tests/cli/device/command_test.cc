// railwise device from outside: machines shown and written, and programs run on them.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "process.h"
#include "tests/ok.h"

namespace railwise::cli {
namespace {

namespace fs = std::filesystem;

// A folder of the test's own for what the command makes, gone with it.
class DeviceCommand : public testing::Test {
 protected:
  DeviceCommand() { fs::create_directory(folder_); }
  ~DeviceCommand() override { fs::remove_all(folder_); }

  ProcessResult railwise(std::vector<std::string> args, std::vector<std::string> environment = {}) const {
    args.insert(args.begin(), "device");
    environment.push_back("TMPDIR=" + folder_.string());
    return runProcess(RAILWISE_CLI, args, environment);
  }
  std::size_t left() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  const fs::path folder_ =
      fs::canonical(fs::temp_directory_path()) / ("railwise_device_" + std::to_string(getpid()));
};

TEST_F(DeviceCommand, ListNamesTheMachines) {
  const auto result = succeeded(railwise({"list"}));
  for (const char* name :
       {"laptop ", "dgx ", "nvlink-mesh ", "cloud-vm ", "asymmetric ", "dual-port ", "default ", "mixed "})
    EXPECT_HAS(result.out, name);
}

TEST_F(DeviceCommand, ShowIsATableAndJson) {
  const auto table = succeeded(railwise({"show", "--machine", "dgx", "--host", "B"}));
  EXPECT_HAS(table.out, "*B");
  EXPECT_HAS(table.out, "mlx5_7");
  const auto json = succeeded(
      railwise({"show", "-m", "link=ib,count=2", "--set", "pacing=on", "--fabric", "t", "-f", "json"}));
  EXPECT_HAS(json.out, "\"pacing\": true");
  EXPECT_HAS(json.out, "\"fabric\": \"t\"");
  EXPECT_HAS(json.out, "\"name\": \"soft1\"");
}

TEST_F(DeviceCommand, ShowTellsNvlinks) {
  const auto table = railwise({"show", "--machine", "dgx", "--set", "gpudirect=on"});
  EXPECT_HAS(table.out, "GPU 0000:1b:00.0 of A: sm 90; 18 NVLinks: 5 to 0000:05:00.0, 5 to ");
  EXPECT_HAS(table.out, "gpudirect=on");
  const auto json = railwise({"show", "-m", "nvlink-mesh", "-f", "json"});
  EXPECT_HAS(json.out, "{\"target\": \"0000:07:00.0\", \"count\": 1}");
}

TEST_F(DeviceCommand, TheDefaultMachineBeginsWithInfiniBand) {
  const auto result = railwise({"show", "--format", "json"});
  const auto first = result.out.find("\"link\": \"ib\"");
  ASSERT_NE(first, std::string::npos) << result.out;
  EXPECT_LT(first, result.out.find("\"link\": \"roce\""));
}

TEST_F(DeviceCommand, MistakesAreSaid) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
      {{}, "which subcommand? run, "},
      {{"shw"}, "did you mean 'show'"},
      {{"show", "--machine", "dxg"}, "did you mean \"dgx\"?"},
      {{"show", "--machine", "dgx", "--host", "C"}, "its hosts are A, B"},
      {{"show", "--machine", "speed=1"}, "bad value \"1\" for key \"speed\""},
      {{"sysfs"}, "into which folder?"},
      {{"run"}, "which command?"},
      {{"run", "--machin", "dgx"}, "did you mean --machine?"},
      {{"run", "--machine"}, "needs a value"},
      {{"run", "--sysfs", "maybe", "--", "true"}, "one of auto, on, off"}};
  for (const auto& [args, message] : mistakes) {
    EXPECT_HAS(endedWith(2, railwise(args)).err, message);
  }
}

TEST_F(DeviceCommand, SysfsIsWhatTopoReads) {
  const std::string tree = folder_ / "tree";
  const auto written = succeeded(railwise({"sysfs", "-m", "asymmetric", "-H", "B", tree}));
  const auto shown = succeeded(runProcess(RAILWISE_CLI, {"topo", "show", "--root", tree, "--quiet"}));
  EXPECT_HAS(shown.out, "mlx5_1, 200 Gb/s, 0000:ca:00.0");
  EXPECT_EQ(railwise({"sysfs", tree}).status, 1);  // not empty
}

TEST_F(DeviceCommand, RunPassesTheMachineOn) {
  const auto result =
      succeeded(railwise({"run", "-m", "link=ib", "--fabric", "t", "--", "sh", "-c",
                          "echo $RAILWISE_DEVICE; echo $LD_LIBRARY_PATH; echo $NCCL_IBVERBS_LIB"},
                         {"LD_LIBRARY_PATH=/elsewhere"}));
  EXPECT_HAS(result.out, "software:link=ib;fabric=t\n");
  EXPECT_HAS(result.out, "/railwise-verbs:/elsewhere\n");
  EXPECT_HAS(result.out, "/railwise-verbs/libibverbs.so.1\n");
}

TEST_F(DeviceCommand, RunKeepsTheMachineOfTheEnvironment) {
  const auto result = railwise({"run", "printenv", "RAILWISE_DEVICE"}, {"RAILWISE_DEVICE=software:count=3"});
  EXPECT_EQ(result.out, "software:count=3\n") << result.err;
}

TEST_F(DeviceCommand, TheFabricOfTheCommandLineComesFirst) {
  for (const auto& [given, taken] : {std::pair{"fabric=x,count=3", "count=3"},
                                     {"count=3,fabric=x", "count=3"},
                                     {"count=3;fabric=x;seed=2", "count=3;;seed=2"}}) {
    const auto result = railwise({"run", "-m", given, "--fabric", "y", "--", "printenv", "RAILWISE_DEVICE"});
    EXPECT_EQ(result.out, std::string("software:") + taken + ";fabric=y\n") << result.err;
  }
  const std::string file = (folder_ / "named.conf").string();
  std::ofstream(file) << "fabric=lab\nhost X\nname=mlx5_9 link=ib\n";
  const auto shown = railwise({"show", "-m", file, "--fabric", "y", "-f", "json"});
  EXPECT_HAS(shown.out, "\"fabric\": \"y\"") << shown.err;
}

TEST_F(DeviceCommand, AFileIsNamedInFull) {
  std::ofstream(folder_ / "lab.conf") << "host X\nname=mlx5_9 link=ib\n";
  const auto result = runProcess(
      "/bin/sh", {"-c", "cd '" + folder_.string() +
                            "' && '" RAILWISE_CLI
                            "' device run -m ./lab.conf#X -- printenv RAILWISE_DEVICE RAILWISE_HOST"});
  EXPECT_EQ(result.out, "software:" + (folder_ / "lab.conf").string() + "#X\nX\n") << result.err;
}

TEST_F(DeviceCommand, TheExitStatusIsTheCommands) {
  for (const char* machine : {"default", "laptop"}) {  // taking its place, and as a child
    EXPECT_EQ(railwise({"run", "-m", machine, "--", "sh", "-c", "exit 7"}).status, 7);
    EXPECT_EQ(railwise({"run", "-m", machine, "--", "sh", "-c", "kill -KILL $$"}).status, 128 + SIGKILL);
    EXPECT_EQ(endedWith(127, railwise({"run", "-m", machine, "/no/such/command"})).err,
              "railwise: device run: /no/such/command: no such command\n");
    EXPECT_EQ(railwise({"run", "-m", machine, "/etc/passwd"}).status, 126);
    EXPECT_EQ(left(), 0U);
  }
}

TEST_F(DeviceCommand, RunFailsWithoutTheLibrary) {
  EXPECT_HAS(endedWith(125, railwise({"run", "true"}, {"RAILWISE_VERBS_DIR=/nowhere"})).err,
             "RAILWISE_VERBS_DIR");
}

TEST_F(DeviceCommand, TheSysOfTheMachineIsShown) {
  const std::string file = "/sys/class/infiniband/mlx5_0/ports/1/gids/0";
  const std::vector<std::string> probe = {SYSFS_PROBE, file, "/sys/bus/pci/devices",
                                          "/sys/class/infiniband/mlx5_0"};
  std::vector<std::string> args = {"run", "-m", "asymmetric", "-H", "B"};
  args.insert(args.end(), probe.begin(), probe.end());
  const auto seen = succeeded(railwise(args));
  EXPECT_HAS(seen.out, "realpath yes\n");
  EXPECT_LACKS(seen.out, " no\n");
  args[1] = "--sysfs=off";
  args = {"run", "--sysfs=off", "-m", "asymmetric", "-H", "B"};
  args.insert(args.end(), probe.begin(), probe.end());
  EXPECT_HAS(railwise(args).out, "fopen no\n");
  EXPECT_EQ(left(), 0U);
}

TEST_F(DeviceCommand, ThePeerMemoryModuleIsShownWithGpuDirectOnly) {
  for (const auto& [setting, shown] : {std::pair{"gpudirect=on", "loaded\n"}, {"gpudirect=off", "none\n"}}) {
    const auto result = railwise({"run", "-m", "dgx", "--set", setting, "--", "sh", "-c",
                                  "test -e /sys/module/nvidia_peermem/version && echo loaded || echo none"});
    EXPECT_EQ(result.out, shown) << result.err;
  }
}

TEST_F(DeviceCommand, TheRestOfSysIsTheComputers) {
  const auto result =
      railwise({"run", "-m", "asymmetric", "--", "sh", "-c",
                "realpath /sys/class/infiniband/mlx5_3/device; test -e /sys/class/net/lo && echo lo;"
                "cat /sys/class/net/en_mlx5_0/speed; cat /sys//class/./infiniband/mlx5_0/ports/1/rate;"
                "cd /sys/class/infiniband/mlx5_1 && cat device/numa_node"});
  EXPECT_EQ(result.out,
            "/sys/devices/pci0000:c0/0000:c0:01.1/0000:c1:00.0/0000:c2:00.0/0000:c3:00.0\nlo\n400000\n"
            "400 Gb/sec (4X NDR)\n0\n")
      << result.err;
}

TEST_F(DeviceCommand, NothingIsLeftBehindByASignal) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    Process process(RAILWISE_CLI,
                    {"device", "run", "-m", "laptop", "--", "sh", "-c", "echo up; exec sleep 100"},
                    {"TMPDIR=" + folder_.string()});
    ASSERT_TRUE(process.waitForOut("up"));
    EXPECT_EQ(left(), 1U);
    kill(process.pid(), signal);
    EXPECT_EQ(process.wait().status, 128 + signal);
    EXPECT_EQ(left(), 0U);
  }
}

TEST_F(DeviceCommand, TheNextRunCleansUpAfterAKilledOne) {
  {
    Process process(RAILWISE_CLI,
                    {"device", "run", "-m", "laptop", "--", "sh", "-c", "echo up; exec sleep 100"},
                    {"TMPDIR=" + folder_.string()});
    ASSERT_TRUE(process.waitForOut("up"));
    kill(process.pid(), SIGKILL);
    EXPECT_EQ(process.wait().status, 128 + SIGKILL);
  }
  EXPECT_EQ(left(), 1U);
  Process living(RAILWISE_CLI, {"device", "run", "-m", "laptop", "--", "sh", "-c", "echo up; exec sleep 100"},
                 {"TMPDIR=" + folder_.string()});
  ASSERT_TRUE(living.waitForOut("up"));
  EXPECT_EQ(left(), 1U);  // its own
  EXPECT_EQ(railwise({"run", "-m", "laptop", "--", "true"}).status, 0);
  EXPECT_EQ(left(), 1U);  // of the one that lives
}

TEST_F(DeviceCommand, RunMeansTheDropInToo) {
  const auto result =
      railwise({"run", "--machine", "link=ib", "--", "sh", "-c", "echo [$RAILWISE_DROP_IN_DEVICE]"},
               {"RAILWISE_DROP_IN_DEVICE=software:name=other"});
  EXPECT_EQ(result.out, "[]\n") << result.err;
}

}  // namespace
}  // namespace railwise::cli
