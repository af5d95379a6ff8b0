// Arbitrary text as RAILWISE_DEVICE=software:TEXT, as a machine file, and the /sys of what that describes.
#include <string>

#include "base/log.h"
#include "cli/device/tree.h"
#include "softdev/config/config.h"
#include "softdev/softdev.h"

namespace {

void discard(int, unsigned long, const char*, int, const char*, ...) {}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  railwise::log::setSink(discard);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto machine = railwise::softdev::parseMachineText(text, "fuzz.conf");
  if (machine.ok()) {
    constexpr size_t kFewDevices = 32;  // count=256 makes no other tree than count=2
    for (const auto& host : machine->hosts)
      if (host.devices.size() <= kFewDevices && host.numa_nodes <= 4) (void)railwise::cli::deviceTree(host);
  }
  if (!text.empty() && (text[0] == '/' || text[0] == '.' || text[0] == '@')) return 0;  // would read files
  (void)railwise::softdev::configure(text.c_str());
  return 0;
}
