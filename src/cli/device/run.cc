// railwise device run: runs a program on software devices. If the program needs no /sys of its own, it
// replaces this process. Otherwise it is a child process, so that this process can remove the /sys
// afterwards.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/installed_places.h"
#include "base/outcome.h"
#include "base/process.h"
#include "cli/device/machine.h"
#include "cli/device/tree.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "cli/options/options.h"

namespace railwise::cli {
namespace {

// A folder for the /sys that `railwise device run` shows to its command. The folder's name identifies its
// owner (user, PID namespace, process id and start time of the process). So the next run can find and remove
// what a killed run left behind.

class DeviceScratch {
 public:
  // Removes the folders of owners that have ended, then makes the folder in TMPDIR, XDG_RUNTIME_DIR, /dev/shm
  // or /tmp.
  static Outcome<DeviceScratch> create();
  DeviceScratch(DeviceScratch&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  DeviceScratch& operator=(DeviceScratch&&) = delete;
  ~DeviceScratch();  // removes the folder

  const std::string& path() const { return path_; }  // absolute, without symbolic links

 private:
  explicit DeviceScratch(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

namespace fs = std::filesystem;

// When a process began. "": there is no such process.
std::string startOf(const std::string& pid) {
  const uint64_t start = processStat(pid).start;
  return start != 0 ? std::to_string(start) : "";
}

// The beginning of the names of this user's folders in this PID namespace: "railwise-sysfs.0.4026531836.".
// Only such folders are examined.
std::string prefix() {
  struct stat space = {};
  (void)stat("/proc/self/ns/pid", &space);
  return textOf("railwise-sysfs.%u.%llu.", geteuid(), static_cast<unsigned long long>(space.st_ino));
}

// TMPDIR if it is set. Otherwise a folder in memory, because the tree has about a thousand small files: the
// user's own folder, or the one of shared memory.
fs::path temporaryFolder() {
  for (const char* variable : {"TMPDIR", "XDG_RUNTIME_DIR"}) {
    std::error_code error;
    const char* named = std::getenv(variable);
    if (named == nullptr || *named == '\0') continue;
    fs::path folder = fs::canonical(named, error);
    if (!error && access(folder.c_str(), W_OK | X_OK) == 0) return folder;
  }
  return access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
}

bool mine(const fs::path& folder) {
  struct stat status = {};
  return lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid();
}

void removeStale(const fs::path& folder, const std::string& ours) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(ours)) continue;
    const std::string owner = name.substr(ours.size());  // "PID.START"
    const std::size_t dot = owner.find('.');
    if (dot == std::string::npos || owner.find_first_not_of("0123456789.") != std::string::npos) continue;
    if (startOf(owner.substr(0, dot)) == owner.substr(dot + 1) || !mine(entry.path())) continue;
    std::error_code ignored;
    fs::remove_all(entry.path(), ignored);
  }
}

Outcome<DeviceScratch> DeviceScratch::create() {
  const fs::path folder = temporaryFolder();
  const std::string ours = prefix();
  removeStale(folder, ours);
  const std::string pid = std::to_string(getpid());
  const std::string path = (folder / (ours + pid + "." + startOf(pid))).string();
  if (mkdir(path.c_str(), 0700) != 0)
    return Error{"cannot make the folder " + path + ": " + std::strerror(errno)};
  return DeviceScratch(path);
}

DeviceScratch::~DeviceScratch() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

// Runs the command of `railwise device run`. Main thread, and no other thread may run.

// Exit statuses, as the programs env, timeout and nohup use them.
constexpr int kExitRunFailed = 125;
constexpr int kExitCannotRun = 126;
constexpr int kExitNotFound = 127;

// Holds signals back from construction on. run() starts the command and passes on the signals that this
// process receives. It returns the command's exit status, or minus the number of the signal that ended the
// command. If this process is killed, the command is killed too.
class ChildRunner {
 public:
  ChildRunner();
  ChildRunner(const ChildRunner&) = delete;
  ChildRunner& operator=(const ChildRunner&) = delete;
  ~ChildRunner();

  int run(char* const* command);

 private:
  sigset_t before_;
  sigset_t waited_;
};

constexpr int kForwarded[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGCONT, SIGWINCH};

// Replaces this process by the command. Returns only if that fails: it reports the reason and returns the
// exit status.
int executeCommand(char* const* command) {
  execvp(command[0], command);
  const int error = errno;
  if (error == ENOENT) return leave(kExitNotFound, "device run: %s: no such command", command[0]);
  say("device run: cannot run %s: %s", command[0], std::strerror(error));
  return kExitCannotRun;
}

ChildRunner::ChildRunner() {
  sigemptyset(&waited_);
  sigaddset(&waited_, SIGCHLD);
  for (const int signal : kForwarded) sigaddset(&waited_, signal);
  sigprocmask(SIG_BLOCK, &waited_, &before_);
}

ChildRunner::~ChildRunner() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

int ChildRunner::run(char* const* command) {
  ProcessPlan plan;
  plan.body = [&](std::string&) {
    sigprocmask(SIG_SETMASK, &before_, nullptr);
    return executeCommand(command);
  };
  auto child = Process::start(plan);
  if (!child.ok())
    return leave(kExitRunFailed, "device run: cannot start a process: %s", child.error().c_str());
  while (true) {
    siginfo_t info = {};
    const int signal = sigwaitinfo(&waited_, &info);
    if (signal < 0) continue;
    // The kernel sends its signals (Ctrl-C, a hang-up, a new window size) to the whole process group, which
    // includes the command.
    const bool to_us_alone = info.si_code <= 0;
    if (signal != SIGCHLD) {
      if (to_us_alone) child->kill(signal);
      continue;
    }
    if (const auto& end = child->ended()) return end->signalled ? -end->code : end->code;
  }
}

// Returns the exit status for a result of run(). If a signal ended the command, it ends this process by the
// same signal.
int leaveLike(int result) {
  if (result >= 0) return result;
  const rlimit no_core = {0, 0};  // the core file of the command itself is the useful one
  setrlimit(RLIMIT_CORE, &no_core);
  signal(-result, SIG_DFL);
  raise(-result);
  constexpr int kSignalled = 128;
  return kSignalled - result;
}

enum class Sysfs { kAuto, kOn, kOff };
constexpr std::array<Choice<Sysfs>, 3> kSysfs = {
    {{"auto", Sysfs::kAuto}, {"on", Sysfs::kOn}, {"off", Sysfs::kOff}}};

constexpr const char* kDeviceRunHelp =
    "usage: railwise device run [options] [--] COMMAND [ARGUMENT...]\n\n"
    "Runs COMMAND with Railwise's libibverbs.so.1 in front of the system's: its RDMA devices are software "
    "devices. All calls of one user are on one fabric, so two of them reach each other:\n\n"
    "  railwise device run ibv_rc_pingpong &\n"
    "  railwise device run ibv_rc_pingpong localhost\n\n"
    "Exit status: the command's; 127 it is not found, 126 it cannot be run, 125 run itself failed, 2 a "
    "mistake on the command line or in the configuration.\n\n";

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
  if (folder.empty())
    return leave(kExitRunFailed,
                 "device run: no railwise-verbs/%s beside this program: install the package railwise-device, "
                 "or use --sysfs off",
                 kFile);
  ChildRunner runner;  // from here on, no signal ends this process before the folder is removed
  const auto scratch = DeviceScratch::create();
  const auto written = scratch.ok() ? writeTree(deviceTree(machine.config.host()), scratch->path())
                                    : Outcome<void>(scratch.failure());
  if (!written.ok()) return leave(kExitRunFailed, "device run: %s", written.error().c_str());
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
                                      "show the command the machine's /sys: on, off, or auto, when the "
                                      "machine describes hosts with a PCI tree (default: auto)"));
  int status = kExitOk;
  const auto arguments = parseOrLeave("device run", table, args, kDeviceRunHelp, kRunsRest, &status);
  if (!arguments) return status;
  if (arguments->rest.empty())
    return leave(kExitUsage, "device run: which command? (railwise device run --help)");
  const auto machine = openDeviceMachine("device run", options);
  if (!machine) return kExitUsage;
  if (!setUpVerbs(*machine, options.host)) return kExitRunFailed;
  std::vector<std::string> words(arguments->rest.begin(), arguments->rest.end());
  const std::vector<char*> argv = argvOf(words);
  const bool with_tree = sysfs == Sysfs::kOn || (sysfs == Sysfs::kAuto && hasTree(machine->config.host()));
  if (!with_tree) return executeCommand(argv.data());
  const int result = runWithTree(*machine, argv.data());
  return leaveLike(result);
}

}  // namespace railwise::cli
