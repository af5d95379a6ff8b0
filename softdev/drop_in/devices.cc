// Devices: configures them from the environment, lists, names, opens and closes them.
#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/settings/config.h"
#include "softdev/drop_in/front.h"
#include "softdev/queues/objects.h"
#include "softdev/verbs/queue_pair.h"

namespace railwise::drop_in {
namespace {

// The devices if nothing is configured, as with `railwise device run`. perftest and the examples of rdma-core
// take the first device, and LIDs need no further option.
constexpr const char* kDefaultDevices = "@default";

// The text for softdev::configure(). Nothing if the variable makes no sense. The drop-in's own variable comes
// before the variable that the plugin reads too, because the plugin may use other devices or another fabric.
std::optional<std::string> configuredDevices() {
  constexpr std::string_view kSoftware = "software";
  const Config config = Config::load();
  const bool own = !config.drop_in_device.empty();
  const std::string& value = own ? config.drop_in_device : config.device;
  if (!own && (value.empty() || value == "verbs")) return kDefaultDevices;
  if (value == kSoftware) return "";
  if (value.starts_with("software:")) return value.substr(kSoftware.size() + 1);
  RAILWISE_WARN("%s=%s is not known: use software or software:CONFIG",
                own ? "RAILWISE_DROP_IN_DEVICE" : "RAILWISE_DEVICE", value.c_str());
  return std::nullopt;
}

std::atomic<bool> g_configured{false};

}  // namespace

// Takes no lock of its own: a child that is forked meanwhile could wait for it.
int configure(const char* devices, const char* host, const char* fabric) {
  const Status status = softdev::configure(devices, host, fabric);
  if (!status.ok()) return status.sys_errno == EBUSY ? EBUSY : EINVAL;
  g_configured.store(true);
  return 0;
}

bool configureOnce() {
  if (g_configured.load()) return true;
  static std::mutex& mutex = *new std::mutex;
  std::lock_guard lock(mutex);
  if (g_configured.load()) return true;
  const std::optional<std::string> devices = configuredDevices();
  const bool done = devices && softdev::configure(devices->c_str(), environmentVariable("RAILWISE_HOST"),
                                                  environmentVariable("RAILWISE_FABRIC"))
                                   .ok();
  if (!done) errno = EINVAL;
  g_configured.store(done);
  return done;
}

// Never fails: the kernel releases what a program has left behind, and programs rely on that (perftest leaves
// CQs). Queues that peers can reach are destroyed. The rest of a context with leftover objects stays until
// the process ends.
int closeDevice(ibv_context* context) {
  if (softdev::closeDevice(context) == 0) return 0;
  softdev::Context& left = softdev::as<softdev::Context>(context);
  std::vector<softdev::Qp*> qps;
  {
    std::lock_guard lock(left.objects);
    qps = left.qps;
  }
  for (softdev::Qp* qp : qps) softdev::discardQp(*qp);
  RAILWISE_INFO(log::kNet, "%s: closed with objects left, %zu of them queue pairs", context->device->name,
                qps.size());
  if (softdev::closeDevice(context) == 0) return 0;
  static std::mutex& mutex = *new std::mutex;
  // Keeps a pointer to each such context, so that no leak checker complains.
  static std::vector<ibv_context*>& abandoned = *new std::vector<ibv_context*>;
  std::lock_guard lock(mutex);
  abandoned.push_back(context);
  return 0;
}

void warnObsoleteProgram() {
  static std::atomic<bool> warned{false};
  if (warned.exchange(true)) return;
  RAILWISE_WARN(
      "this program was linked to libibverbs 1.0 (before 2006), which the software device does not serve");
}

}  // namespace railwise::drop_in

using namespace railwise;
using softdev::guarded;

RAILWISE_EXPORT ibv_device** ibv_get_device_list(int* num_devices) {
  if (num_devices != nullptr) *num_devices = 0;
  return guarded([&]() -> ibv_device** {
    return drop_in::configureOnce() ? softdev::getDeviceList(num_devices) : nullptr;
  });
}

RAILWISE_EXPORT void ibv_free_device_list(ibv_device** list) { softdev::freeDeviceList(list); }
RAILWISE_EXPORT const char* ibv_get_device_name(ibv_device* device) { return softdev::getDeviceName(device); }

RAILWISE_EXPORT ibv_context* ibv_open_device(ibv_device* device) {
  return guarded([&] { return softdev::openDevice(device); });
}

RAILWISE_EXPORT int ibv_close_device(ibv_context* context) {
  return guarded([&] { return drop_in::closeDevice(context); });
}

RAILWISE_EXPORT int ibv_fork_init() { return softdev::forkInit(); }

// A transfer names a process and its addresses, never physical pages, so a fork does no harm.
RAILWISE_EXPORT ibv_fork_status ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }
RAILWISE_EXPORT int ibv_dontfork_range(void*, size_t) { return 0; }
RAILWISE_EXPORT int ibv_dofork_range(void*, size_t) { return 0; }
