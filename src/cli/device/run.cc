// railwise device run: runs a program on software devices. If the program needs no /sys of its own, it
// replaces this process. Otherwise it is a child process, so that this process can remove the /sys
// afterwards.
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/installed_places.h"
#include "cli/device/child.h"
#include "cli/device/commands.h"
#include "cli/device/machine.h"
#include "cli/device/scratch.h"
#include "cli/device/tree.h"
#include "cli/options/command_line.h"
#include "cli/options/message.h"

namespace railwise::cli {
namespace {

enum class Sysfs { kAuto, kOn, kOff };
constexpr std::array<Choice<Sysfs>, 3> kSysfs = {
    {{"auto", Sysfs::kAuto}, {"on", Sysfs::kOn}, {"off", Sysfs::kOff}}};

constexpr const char* kDeviceRunHelp =
    "usage: railwise device run [options] [--] COMMAND [ARGUMENT...]\n\n"
    "Runs COMMAND with Railwise's libibverbs.so.1 in front of the system's: its RDMA devices are software "
    "devices.\n"
    "All calls of one user are on one fabric, so two of them reach each other:\n\n"
    "  railwise device run ibv_rc_pingpong &\n"
    "  railwise device run ibv_rc_pingpong localhost\n\n"
    "Exit status: the command's; 127 it is not found, 126 it cannot be run, 125 run itself failed, 2 a "
    "mistake "
    "on\nthe command line or in the configuration.\n\n";

// The folder of a library that is built with this executable. "": the library was not found.
std::string findFolder(const char* file) {
  namespace fs = std::filesystem;
  std::error_code error;
  const char* named = std::getenv("RAILWISE_VERBS_DIR");
  if (named != nullptr && *named != '\0')
    return fs::exists(fs::path(named) / file, error) ? fs::absolute(named, error).string() : "";
  for (const std::string& folder : installedPlaces("railwise-verbs"))
    if (fs::exists(fs::path(folder) / file, error)) return folder;
  return "";
}

void prepend(const char* variable, const std::string& value, char separator) {
  const char* old = std::getenv(variable);
  const std::string all = old != nullptr && *old != '\0' ? value + separator + old : value;
  setenv(variable, all.c_str(), 1);
}

bool setUpVerbs(const DeviceMachine& machine, const std::string& host) {
  constexpr const char* kFile = "libibverbs.so.1";
  const std::string folder = findFolder(kFile);
  if (folder.empty()) {
    say("device run: no railwise-verbs/%s beside this program: install the package railwise-device, or name "
        "the folder that has the file in RAILWISE_VERBS_DIR",
        kFile);
    return false;
  }
  prepend("LD_LIBRARY_PATH", folder, ':');
  setenv("NCCL_IBVERBS_LIB", (folder + "/" + kFile).c_str(), 1);
  setenv("RAILWISE_DEVICE", ("software:" + machine.text).c_str(), 1);
  unsetenv("RAILWISE_DROP_IN_DEVICE");  // it would have precedence, and the command must use this machine
  if (machine.config.host().described || !host.empty())
    setenv("RAILWISE_HOST", machine.config.host().name.c_str(), 1);
  return true;
}

int runWithTree(const DeviceMachine& machine, char* const* command) {
  constexpr const char* kFile = "librailwise-sysfs.so";
  const std::string folder = findFolder(kFile);
  if (folder.empty()) {
    say("device run: no railwise-verbs/%s beside this program: install the package railwise-device, or use "
        "--sysfs off",
        kFile);
    return kExitRunFailed;
  }
  ChildRunner runner;  // from here on, no signal ends this process before the folder is removed
  const auto scratch = DeviceScratch::create();
  const auto written = scratch.ok() ? writeTree(deviceTree(machine.config.host()), scratch->path())
                                    : Outcome<void>(scratch.failure());
  if (!written.ok()) {
    say("device run: %s", written.error().c_str());
    return kExitRunFailed;
  }
  setenv("RAILWISE_SYSFS_ROOT", scratch->path().c_str(), 1);
  prepend("LD_PRELOAD", folder + "/" + kFile, ':');
  return runner.run(command);
}

}  // namespace

int deviceRunCommand(Args args) {
  DeviceMachineOptions options;
  Sysfs sysfs = Sysfs::kAuto;
  std::vector<Option> table;
  addDeviceMachineOptions(table, options);
  table.push_back(choiceOption<Sysfs>(0, "sysfs", kSysfs, &sysfs,
                                      "show the command the machine's /sys: on, off, or auto, when\n"
                                      "the machine describes hosts with a PCI tree (default: auto)"));
  // The options end where the command begins, with or without "--".
  const std::vector<const char*> own = ownArguments(table, args);
  int status = kExitOk;
  const auto arguments = parseOrLeave("device run", table, own, kDeviceRunHelp, 0, &status);
  if (!arguments) return status;
  Args command = args.subspan(own.size());
  if (!command.empty() && std::string_view(command[0]) == "--") command = command.subspan(1);
  if (command.empty()) {
    say("device run: which command? (railwise device run --help)");
    return kExitUsage;
  }
  const auto machine = openDeviceMachine("device run", options);
  if (!machine) return kExitUsage;
  if (!setUpVerbs(*machine, options.host)) return kExitRunFailed;
  std::vector<char*> argv;
  for (const char* argument : command) argv.push_back(const_cast<char*>(argument));
  argv.push_back(nullptr);
  const bool with_tree = sysfs == Sysfs::kOn || (sysfs == Sysfs::kAuto && hasTree(machine->config.host()));
  if (!with_tree) return executeCommand(argv.data());
  const int result = runWithTree(*machine, argv.data());
  return leaveLike(result);
}

}  // namespace railwise::cli
