// The built command from outside: what needs no ranks.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/settings/config.h"
#include "base/text/words.h"
#include "process.h"
#include "tests/ok.h"
#include "tests/scratch.h"

namespace railwise::cli {
namespace {

ProcessResult railwise(const std::vector<std::string>& args,
                       const std::vector<std::string>& environment = {}) {
  return runProcess(RAILWISE_CLI, args, environment);
}

TEST(Command, VersionAndHelp) {
  EXPECT_TRUE(railwise({"version"})
                  .out.starts_with("railwise " RAILWISE_VERSION
                                   " (NCCL net plugin API v6 to v12, RMA plugin API v13 to v16)\n"));
  EXPECT_EQ(railwise({"--version"}).status, 0);
  std::vector<std::string> lines = {"help", "--help"};
  for (const std::string& command :
       splitAt("perf,devices,config,explain,topo,topo show,topo lint,topo diff,topo generate,topo "
               "record,topo graphs,topo expect,topo transports,stuck,metrics,doctor,device run,bench",
               ','))
    lines.push_back(command + " --help");
  for (const std::string& line : lines) {
    const auto result = succeeded(railwise(wordsOf(line)));
    EXPECT_EQ(result.out.substr(0, 15), "usage: railwise");
    EXPECT_EQ(result.err, "");
    std::istringstream page(result.out);
    for (std::string each; std::getline(page, each);) EXPECT_LE(each.size(), 80U) << each;
  }
}

// A terminal obeys what stands in an argument, in the name of a file, and in the file. Whatever a command
// makes of them, it prints no control character.
TEST(Command, NothingFromOutsideReachesTheTerminalAsItIs) {
  const std::string evil = "\x1b]0;title\x07\x1b[31m";
  const std::string folder = testing::TempDir() + "railwise-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const std::string file = folder + "/" + evil + ".xml";
  std::ofstream(file) << "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"Evil" << evil
                      << "\"><pci busid=\"0000:01:00.0" << evil << "\" class=\"0x030200\" evil" << evil
                      << "=\"1\"><gpu dev=\"0\" sm=\"90\" rank=\"0\"/></pci><pci busid=\"0000:02:00.0\" "
                      << "class=\"0x020000\"><nic><net name=\"mlx5_0" << evil
                      << "\" dev=\"0\" speed=\"100000\" port=\"1\" guid=\"0x1\" maxconn=\"131072\" "
                      << "gdr=\"1\"/></nic></pci></cpu></system>";
  const std::string nonsense = folder + "/" + evil + ".txt";
  std::ofstream(nonsense) << "<system" << evil << " " << evil << "=1>" << evil;
  std::vector<std::vector<std::string>> runs = {{evil}, {"help", evil}, {"topo", evil}, {"device", evil}};
  for (const char* command : {"perf", "bench", "explain", "config", "devices", "doctor", "fingerprint",
                              "stuck", "postmortem", "demo", "version", "metrics", "top"}) {
    runs.push_back({command, evil});
    runs.push_back({command, "--" + evil});
  }
  for (const char* command :
       {"show", "lint", "explain", "diff", "generate", "graphs", "expect", "transports", "record"}) {
    // What records would write to the name.
    const bool writes = std::string(command) == "record" || std::string(command) == "generate";
    runs.push_back({"topo", command, writes ? folder + "/no folder/" + evil : evil});
    runs.push_back({"topo", command, "--" + evil});
    if (!writes) runs.push_back({"topo", command, nonsense});
    if (!writes) runs.push_back({"topo", command, file});
  }
  for (const char* format : {"text", "json", "xml", "svg", "html"})
    runs.push_back({"topo", "show", file, "--format", format});
  for (const char* command : {"explain", "doctor"}) {
    runs.push_back({command, file});
    runs.push_back({command, nonsense});
  }
  runs.push_back({"topo", "diff", file, nonsense});
  for (const char* command : {"show", "fault", "stats", "sysfs", "run", "list"}) {
    runs.push_back({"device", command, folder + "/no folder/" + evil});
    runs.push_back({"device", command, "--machine", evil});
    runs.push_back({"device", command, "--fabric", evil, evil});
  }
  for (const std::vector<std::string>& args : runs) {
    const auto result = railwise(args, {"RAILWISE_DEVICE=software:fabric=escapes"});
    std::string told;
    for (const std::string& arg : args) told += " " + arg;
    EXPECT_EQ((result.out + result.err).find_first_of("\x1b\x07"), std::string::npos)
        << "railwise" << told << "\n"
        << result.out << result.err;
  }
  std::filesystem::remove_all(folder);
}

TEST(Command, HelpTakesACommand) {
  EXPECT_EQ(railwise({"help", "topo", "show"}).out, railwise({"topo", "show", "--help"}).out);
  EXPECT_EQ(railwise({"help", "perf"}).out, railwise({"perf", "--help"}).out);
  EXPECT_EQ(railwise({"help", "explian"}).status, 2);
  EXPECT_EQ(railwise({"-V"}).out, railwise({"version"}).out);
}

// The first command that a newcomer types.
TEST(Command, AloneItPrintsTheHelp) { EXPECT_EQ(endedWith(2, railwise({})).out, railwise({"help"}).out); }

TEST(Command, MistakesEndWith2AndOneLine) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
      {{"prf"}, "railwise: unknown command 'prf', did you mean 'perf'?\n"},
      {{"evices"}, "railwise: unknown command 'evices', did you mean 'devices'?\n"},
      {{"version", "now"},
       "railwise: version: unexpected argument 'now' (railwise version --help lists what there is)\n"},
      {{"devices", "--jsn"},
       "railwise: devices: unknown option --jsn, did you mean --json? (railwise devices --help lists what "
       "there is)\n"},
      {{"config", "all", "two"},
       "railwise: config: unexpected argument 'two' (railwise config --help lists what there is)\n"},
      {{"perf", "all_reduce", "--ranks", "0"},
       "railwise: perf: option --ranks: '0' is not a number from 1 to 1024 (railwise perf --help lists what "
       "there is)\n"}};
  for (const auto& [args, message] : mistakes) {
    const auto result = endedWith(2, railwise(args));
    EXPECT_EQ(result.err, message);
    EXPECT_EQ(result.out, "");
  }
}

// Every command that answers about a machine: wrong options are a mistake, a machine that cannot be read is
// none.
TEST(Command, OptionsThatNameNoMachineAreMistakes) {
  const std::string out = testing::TempDir() + "railwise-record-" + std::to_string(getpid());
  for (const std::string& command :
       std::vector<std::string>{"explain", "topo show", "topo graphs", "topo expect", "topo transports",
                                "topo export --for env", "gpus", "gpus pick 1", "topo generate", "topo lint",
                                "topo record " + out, "doctor", "devices", "fingerprint"}) {
    std::vector<std::string> mistakes = {"--host a", "--machine nosuch", "--machine dgx --host nosuch"};
    if (command != "devices" && command != "fingerprint") mistakes.push_back("--root / --machine dgx");
    if (command.find("topo") == 0 && command.find("topo record") != 0)
      if (command != "topo lint") mistakes.push_back("--cpu x --machine dgx");
    for (const std::string& mistake : mistakes) {
      const auto result = railwise(wordsOf(command + " " + mistake));
      EXPECT_EQ(result.status, 2) << command << " " << mistake << "\n" << result.err;
      EXPECT_NE(result.err, "");
      EXPECT_EQ(result.out, "") << command << " " << mistake;
    }
    if (command == "doctor" || command == "devices")
      continue;  // no --root, or a status that says the worst finding
    EXPECT_EQ(railwise(wordsOf(command + " --root /nowhere")).status, 1) << command;
  }
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST(Command, AMachineMayStandForAFile) {
  const std::string recording = testing::TempDir() + "railwise-" + std::to_string(getpid()) + ".tar.gz";
  ASSERT_EQ(railwise({"topo", "record", recording, "-m", "cloud-vm"}).status, 0);
  for (const std::string command : {"explain -q", "topo show -q", "topo graphs -q", "topo transports -q",
                                    "topo lint", "gpus -q", "gpus pick 2 -q", "doctor"}) {
    const auto named = railwise(wordsOf(command + " cloud-vm"));
    EXPECT_NE(named.out, "") << command << named.err;
    EXPECT_EQ(named.out, railwise(wordsOf(command + " -m cloud-vm")).out) << command;
    EXPECT_EQ(railwise(wordsOf(command + " " + recording)).out,
              railwise(wordsOf(command + " -m " + recording)).out)
        << command;
  }
  EXPECT_HAS(railwise({"doctor", "cloud-vm"}).out, "hidden-tree");
  std::filesystem::remove(recording);
}

TEST(Command, AFolderWithoutAMachineHasLogs) {
  const std::string folder = testing::TempDir() + "railwise-logs-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const auto doctor = railwise({"doctor", folder});
  EXPECT_NE(doctor.out.find("it is a folder: name the files in it"), std::string::npos) << doctor.err;
  std::filesystem::create_directory(folder + "/sys");
  EXPECT_EQ(railwise({"doctor", folder}).out.find("name the files in it"), std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(Command, ExplainTakesAGpu) {
  const std::string third = railwise({"explain", "-q", "-m", "dgx", "-g", "3"}).out;
  for (const char* words : {"-m dgx GPU3", "dgx gpu3", "-m dgx 3"})
    EXPECT_EQ(railwise(wordsOf("explain -q " + std::string(words))).out, third) << words;
  EXPECT_EQ(railwise({"explain", "dgx", "GPUx"}).status, 2);
}

TEST(Command, WordsThatSelectNothingAreMistakes) {
  for (const char* command :
       {"topo generate -m cloud-vm --nic-device zz", "topo generate -m cloud-vm --nic-device 0xffff",
        "topo generate -m cloud-vm --nic-class zz", "topo generate -m cloud-vm --nic-class 0x0300",
        "topo generate -m cloud-vm --exclude zz", "topo generate -m cloud-vm --exclude 0xffff",
        "gpus pick 1 -m dgx -m nosuch", "demo -m nosuch", "stuck --hosts /", "stuck --hosts /nowhere"}) {
    const auto result = railwise(wordsOf(command));
    EXPECT_EQ(result.status, 2) << command << "\n" << result.err;
    EXPECT_EQ(result.out, "") << command;
  }
}

TEST(Devices, ListsWhatThePluginReports) {
  const auto result = succeeded(railwise({"devices", "--plugin", LOOPBACK_PLUGIN}));
  EXPECT_HAS(result.out, "0    loop0v12  10    1     0x0000000000000001  0     -");
  EXPECT_HAS(result.out, "\n1    loop1v12");
  EXPECT_HAS(result.out, "\nlimits: 1 receives together, ");
  const auto old = railwise({"devices", "--plugin", LOOPBACK_PLUGIN, "--api", "v9", "--json"});
  EXPECT_HAS(old.out, "\"name\": \"loop0v9\"");
  EXPECT_HAS(old.out, "\"rail\": null");
}

TEST(Devices, ARecordedMachineHasNoDevicesToOpen) {
  const std::string machines = RAILWISE_SOURCE_DIR "/tests/topo/machines/";
  for (const std::string command : {"devices", "device show", "device run"}) {
    const std::string end = command == "device run" ? " -- true" : "";
    for (const std::string& recording : {machines + "recorded/two-sockets.tar.gz", machines}) {
      const auto result = railwise(wordsOf(command + " -m " + recording + end));
      EXPECT_EQ(result.status, 2) << command;
      EXPECT_HAS(result.err, "is a recorded /sys");
      EXPECT_HAS(result.err, "railwise explain -m " + recording);
    }
    const auto file = railwise(wordsOf(command + " -m " + machines + "gb200.xml" + end));
    EXPECT_EQ(file.status, 2) << command;
    EXPECT_HAS(file.err, "is a topology file, and no device of it can be opened; railwise explain ");
  }
}

TEST(Devices, AMissingApiVersionIsAMistakeAMissingPluginAFailure) {
  expectFailure(railwise({"devices", "--plugin", LOOPBACK_OLD_PLUGIN, "--api", "v12"}), 2,
                "it exports v8, v7, v6");
  expectFailure(railwise({"devices", "--plugin", "/nowhere/plugin.so"}), 1,
                "cannot load plugin /nowhere/plugin.so: ");
}

TEST(Devices, NcclIbDisableIsNamedAsTheReason) {
  expectFailure(railwise({"devices"}, {"NCCL_IB_DISABLE=1", "RAILWISE_DEVICE=software"}), 1,
                "NCCL_IB_DISABLE=1 switches it off");
}

TEST(Devices, FallsBackToTheSoftwareDevice) {
  const std::vector<std::string> needs = {"LOOPBACK_NEEDS_SOFTWARE=1"};
  const auto result = succeeded(railwise({"devices", "--plugin", LOOPBACK_PLUGIN}, needs));
  EXPECT_EQ(result.err,
            "railwise: no RDMA device on this machine: using the software device "
            "(RAILWISE_DEVICE=software)\n");
}

TEST(Devices, DoesNotFallBackWhenADeviceWasAskedFor) {
  const auto option = endedWith(1, railwise({"devices", "--plugin", LOOPBACK_PLUGIN, "--device", "verbs"},
                                            {"LOOPBACK_NEEDS_SOFTWARE=1"}));
  EXPECT_HAS(option.err, "plugin warns: loopback: no device");
  EXPECT_HAS(option.err, "init failed: ncclSystemError");
  endedWith(1, railwise({"devices", "--plugin", LOOPBACK_PLUGIN},
                        {"LOOPBACK_NEEDS_SOFTWARE=1", "RAILWISE_DEVICE=verbs"}));
  const auto software = succeeded(railwise({"devices", "--plugin", LOOPBACK_PLUGIN, "--device", "software"},
                                           {"LOOPBACK_NEEDS_SOFTWARE=1", "RAILWISE_DEVICE=verbs"}));
  EXPECT_HAS(software.err, " runs on software devices behind Railwise's libibverbs.so.1 ");
}

// On its own devices, and on those that are asked for.
TEST(Devices, GivesUpAPluginThatHangsInInit) {
  for (const char* device : {"auto", "verbs", "software"}) {
    const auto result = railwise({"devices", "--plugin", LOOPBACK_PLUGIN, "--device", device, "-T", "1"},
                                 {"LOOPBACK_HANGS=1"});
    EXPECT_EQ(result.status, 1) << device;
    EXPECT_HAS(result.err, "plugin " LOOPBACK_PLUGIN " hangs: init does not return within 1 s");
  }
}

TEST(Devices, AWarningThatIsRepeatedStandsOnce) {
  const auto result = endedWith(1, railwise({"devices"}, {"RAILWISE_STRICT=nonsense"}));
  const std::string reason = "init fails rather than go on unchecked";
  const std::size_t first = result.err.find(reason);
  ASSERT_NE(first, std::string::npos) << result.err;
  EXPECT_EQ(result.err.find(reason, first + 1), std::string::npos) << result.err;
}

TEST(Devices, VerboseShowsThePluginsInfo) {
  EXPECT_EQ(railwise({"devices", "--plugin", LOOPBACK_PLUGIN}).err, "");
  const auto verbose = railwise({"devices", "--plugin", LOOPBACK_PLUGIN, "-v"});
  EXPECT_HAS(verbose.err, "railwise: plugin: loopback: started\n");
}

const std::string kNoFile = "NCCL_CONF_FILE=/nonexistent";

TEST(ConfigCommand, ListsEverySettingWithItsValue) {
  const auto result = succeeded(railwise({"config"}, {kNoFile, "NCCL_IB_TIMEOUT=22"}));
  for (const Setting& setting : settings())
    EXPECT_HAS(result.out, std::string(setting.env) + "=") << setting.env;
  EXPECT_HAS(result.out, "NCCL_IB_TIMEOUT=22 (environment)\n");
  EXPECT_HAS(result.out, "NCCL_IB_RETRY_CNT=7 (default)\n");
}

TEST(ConfigCommand, SaysWhichFileSetAValue) {
  const test::ScratchFile conf(
      ".nccl.conf", "# NCCL_IB_TC=1\nNCCL_IB_TIMEOUT=22\r\nNCCL_IB_SL=3\nno variable\nNCCL_IB_SL=4\n");
  const std::vector<std::string> by_name = {"NCCL_CONF_FILE=" + conf.path(), "NCCL_IB_TIMEOUT=21"};
  const auto named = railwise({"config"}, by_name);
  EXPECT_HAS(named.out, "NCCL_IB_TIMEOUT=21 (environment)\n");
  EXPECT_HAS(named.out, "NCCL_IB_SL=3 (" + conf.path() + ":3)\n");
  EXPECT_HAS(named.out, "NCCL_IB_TC=-1 (default)\n");
  const auto at_home = railwise({"config"}, {"NCCL_CONF_FILE=", "HOME=" + conf.folder()});
  EXPECT_HAS(at_home.out, "NCCL_IB_TIMEOUT=22 (" + conf.path() + ":2)\n");
  EXPECT_HAS(railwise({"config", "--json"}, by_name).out, "\"line\": 3");
}

TEST(NcclConf, OfAnotherKindThanAFileIsNotRead) {
  EXPECT_EQ(railwise({"version"}, {"NCCL_CONF_FILE=/dev/zero"}).status, 0);
  EXPECT_EQ(railwise({"version"}, {"NCCL_CONF_FILE=/tmp"}).status, 0);
}

TEST(NcclConf, CountsForAnswersAboutAMachine) {
  const test::ScratchFile conf(".nccl.conf", "NCCL_P2P_LEVEL=LOC\n");
  const std::vector<std::string> explain = {"explain", "--machine", "dgx"};
  const auto file = railwise(explain, {"NCCL_CONF_FILE=" + conf.path()});
  EXPECT_HAS(file.out, "  set: NCCL_P2P_LEVEL=LOC (" + conf.path() + ":1)\n") << file.err;
  const auto environment = railwise(explain, {kNoFile, "NCCL_P2P_LEVEL=LOC"});
  // The same answer below the lines of the settings.
  const auto answer = [](const std::string& text) { return text.substr(text.find("\n\n")); };
  EXPECT_EQ(answer(file.out), answer(environment.out));
  EXPECT_NE(answer(file.out), answer(railwise(explain, {kNoFile}).out));
  const auto both = railwise(explain, {"NCCL_CONF_FILE=" + conf.path(), "NCCL_P2P_LEVEL=SYS"});
  EXPECT_HAS(both.out, "  set: NCCL_P2P_LEVEL=SYS\n");
}

TEST(NcclConf, TheDoctorNamesTheFileThatSetAValue) {
  const test::ScratchFile conf(".nccl.conf", "# site\nNCCL_CROSS_NIC=7\nNCCL_IB_TC=-7\n");
  const auto result = endedWith(
      1, railwise({"doctor", "--only", "settings"}, {"NCCL_CONF_FILE=" + conf.path(), "NCCL_IB_TC=999"}));
  EXPECT_HAS(result.out, conf.path() + ":2: NCCL_CROSS_NIC=7");
  EXPECT_HAS(result.out, "the environment: NCCL_IB_TC=999");
}

TEST(ConfigCommand, SaysWhatIsNotAccepted) {
  const auto result = railwise({"config"}, {kNoFile, "NCCL_IB_ADDR_FAMILY=AF_UNIX"});
  EXPECT_HAS(result.out, "NCCL_IB_ADDR_FAMILY= (default: environment has a value that is not accepted)\n");
  EXPECT_HAS(result.err, "NCCL_IB_ADDR_FAMILY=AF_UNIX is not AF_INET or AF_INET6");
}

TEST(ConfigCommand, ADeviceThatIsNoneIsNotShownAsInForce) {
  const auto result = railwise({"config", "--changed"}, {kNoFile, "RAILWISE_DEVICE=foo"});
  EXPECT_HAS(result.out, "RAILWISE_DEVICE=foo (environment; not accepted: init will fail)\n");
}

TEST(ConfigCommand, SaysWhatIsSetInVain) {
  const auto result = railwise({"config"}, {kNoFile, "NCCL_IB_USE_INLINE=1"});
  EXPECT_HAS(result.out, "NCCL_IB_USE_INLINE=1 (environment)\n    not read by the plugin: ");
  EXPECT_LACKS(railwise({"config"}, {kNoFile}).out, "NCCL_IB_USE_INLINE");
}

TEST(ConfigCommand, ChangedLeavesOutDefaults) {
  const auto result = railwise({"config", "--changed", "--brief"}, {kNoFile, "NCCL_IB_TIMEOUT=22"});
  EXPECT_HAS(result.out, "NCCL_IB_TIMEOUT=22 (environment)\n");
  EXPECT_LACKS(result.out, "(default)");
}

TEST(ConfigCommand, ATextIsSoughtInNamesAndDescriptions) {
  const auto result = railwise({"config", "Retries"}, {kNoFile});
  EXPECT_HAS(result.out, "NCCL_IB_RETRY_CNT=");
  EXPECT_LACKS(result.out, "NCCL_IB_HCA=");
  EXPECT_EQ(endedWith(1, railwise({"config", "xyzzy"}, {kNoFile})).err,
            "railwise: config: no setting has 'xyzzy' in its name or description\n");
}

TEST(ConfigCommand, SaysWhatOnlyNcclReads) {
  EXPECT_HAS(railwise({"config", "cross"}, {kNoFile}).err, "only NCCL reads NCCL_CROSS_NIC");
  EXPECT_HAS(railwise({"config", "-c"}, {kNoFile, "NCCL_CROSS_NIC=7"}).err,
             "NCCL_CROSS_NIC=7 is out of range");
}

TEST(ConfigCommand, LooksIntoTheTunersFile) {
  const auto result = railwise({"config", "-c", "-b"}, {kNoFile, "RAILWISE_TUNER_CONFIG=/no/t.csv"});
  EXPECT_HAS(result.out, "init will fail: /no/t.csv: cannot be opened");
}

TEST(ConfigCommand, SaysWhatIsMisspelt) {
  const test::ScratchFile conf(".nccl.conf", "NCCL_SOCKET_IFNAMES=lo\n");
  const auto result = railwise({"config"}, {"NCCL_CONF_FILE=" + conf.path(), "RAILWISE_FAILOVR=0"});
  EXPECT_HAS(result.err, "did you mean RAILWISE_FAILOVER?");
  EXPECT_HAS(result.err, "did you mean NCCL_SOCKET_IFNAME?");
  EXPECT_EQ(railwise({"config"}, {kNoFile}).err, "");
}

TEST(ConfigCommand, MarkdownHasOneRowPerVariable) {
  const auto result = railwise({"config", "--markdown"}, {"NCCL_IB_TIMEOUT=22"});
  for (const Setting& setting : settings())
    EXPECT_HAS(result.out, "\n| `" + std::string(setting.env) + "` |") << setting.env;
  for (const UnusedSetting& setting : unusedSettings())
    EXPECT_HAS(result.out, "\n| `" + std::string(setting.env) + "` |") << setting.env;
  EXPECT_LACKS(result.out, "22") << "documentation must not depend on the environment";
}

}  // namespace
}  // namespace railwise::cli
