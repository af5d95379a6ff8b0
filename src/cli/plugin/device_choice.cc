#include "cli/plugin/device_choice.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "cli/options/message.h"

namespace railwise::cli {
namespace {

constexpr const char* kVariable = "RAILWISE_DEVICE";
// Opening every RDMA device of a large machine takes a few seconds at most.
constexpr int kProbeTimeoutMs = 30'000;

// Runs in the child process. Returns 0 if the plugin starts.
int probe(const PluginOptions& options, const char* device) {
  if (!options.verbose) setPluginLog(PluginLog::kNone);
  if (device != nullptr) setenv(kVariable, device, 1);
  auto plugin = loadPlugin(options);
  // If the plugin cannot be loaded, the problem is not its device. The caller's own attempt will report the
  // problem.
  if (!plugin.ok()) return 0;
  const auto count = startPlugin(*plugin->api, 1);
  if (count.ok()) (void)plugin->api->finalize();
  return count.ok() ? 0 : 1;
}

int waitFor(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

// Does the plugin start in a process of its own, with RAILWISE_DEVICE=`device`? If `device` is null, the
// variable stays as it is.
bool pluginStarts(const PluginOptions& options, const char* device) {
  const pid_t child = fork();
  if (child < 0) return true;  // no probe, no fallback: the plugin's own init decides
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null >= 0 && !options.verbose) dup2(null, STDERR_FILENO);
    _exit(probe(options, device));
  }
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  if (pidfd >= 0) {
    pollfd ended = {.fd = pidfd, .events = POLLIN, .revents = 0};
    if (poll(&ended, 1, kProbeTimeoutMs) == 0) kill(child, SIGKILL);
    close(pidfd);
  }
  const int status = waitFor(child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

void useOwnFabric(const std::string& name) {
  constexpr const char* kFabricVariable = "RAILWISE_FABRIC";
  const char* const named = std::getenv(kFabricVariable);
  if (named == nullptr || *named == '\0') setenv(kFabricVariable, name.c_str(), 1);
}

bool startsByItself(const PluginOptions& options) { return pluginStarts(options, nullptr); }

bool needsSoftwareDevice(const PluginOptions& options) {
  if (options.device != "auto" || std::getenv(kVariable) != nullptr) return false;
  return !pluginStarts(options, nullptr) && pluginStarts(options, "software");
}

void applyDevice(const PluginOptions& options, bool software_fallback) {
  if (options.device != "auto") {
    setenv(kVariable, options.device.c_str(), 1);
  } else if (software_fallback) {
    setenv(kVariable, "software", 1);
  }
}

}  // namespace railwise::cli
