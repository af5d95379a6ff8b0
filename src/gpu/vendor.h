// The vendors' libraries that know the GPUs of this machine, and how they are asked: each in a child process
// of its own, since a library may hang, crash or answer nonsense when its driver or a GPU is broken. Use
// readGpus(). Not thread-safe: readGpus() forks and waits for its own children.
//
// A new vendor is one file with a class of GpuVendor, its maker below, and its line in allVendors().
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/dynamic_library.h"
#include "base/outcome.h"
#include "base/settings/config.h"
#include "gpu/topology.h"

namespace railwise::gpu {

class GpuVendor {
 public:
  virtual ~GpuVendor() = default;
  virtual Vendor vendor() const = 0;
  // For people: "NVIDIA's library (libnvidia-ml.so.1)".
  virtual std::string name() const = 0;
  // The vendor's own program, which a person tries when the library fails: "nvidia-smi".
  virtual std::string program() const = 0;
  // Appends devices, links, peers and remarks. A vendor whose library is not installed appends nothing. An
  // error: the library is there and cannot be used. Runs in the child process.
  virtual Outcome<void> read(GpuTopology& topology) const = 0;
};

std::unique_ptr<GpuVendor> makeNvml(const Config& config);
std::unique_ptr<GpuVendor> makeAmdSmi(const Config& config);
std::unique_ptr<GpuVendor> makeRocmSmi(const Config& config);

// In the order of preference: where two libraries of one vendor find GPUs, the first one counts.
std::vector<std::unique_ptr<GpuVendor>> allVendors(const Config& config = Config::load());

// nvidia-smi takes 1 s without the persistence daemon on a machine of eight GPUs.
constexpr Clock::duration kVendorLimit = std::chrono::seconds(2);

// Asks all vendors, all at once, and waits no longer than `limit` (and a fifth of a second for each child
// that does not end). What fails becomes a remark. An error: no process could be started.
Outcome<GpuTopology> readGpus(Clock::duration limit = kVendorLimit);
Outcome<GpuTopology> readGpus(Clock::duration limit, const std::vector<std::unique_ptr<GpuVendor>>& vendors);

// ---- for the vendors

// A library of no more GPUs than this is believed; NVIDIA's largest machine has 16, AMD's 64 partitions.
constexpr int kMaxDevices = 256;

// Calls `function` of a library if the library has it. True: it has answered. 0 is success in every library.
template <typename Status, typename... Parameters, typename... Arguments>
bool answers(Status (*function)(Parameters...), Arguments... arguments) {
  return function != nullptr && function(arguments...) == Status{0};
}
// The library of `setting` (a path from Config), or when that is empty the first of `names` that is
// installed. Null: it is not installed.
Outcome<std::unique_ptr<DynamicLibrary>> openVendorLibrary(const std::string& setting,
                                                           const std::vector<const char*>& names);

// A vendor that is one library.
struct VendorLibrary {
  Vendor vendor;
  const char* library;  // for people: "libnvidia-ml.so.1"
  const char* program;
  std::vector<const char*> names;  // to open, the first that is installed
  std::string path;                // the library that a setting names; empty: none
  // As GpuVendor::read(), of a library that is open. `name`: of the vendor. `chosen`: a setting names it.
  Outcome<void> (*read)(const DynamicLibrary& library, const std::string& name, bool chosen,
                        GpuTopology& topology);
};
std::unique_ptr<GpuVendor> makeVendor(VendorLibrary library);

// The text in a buffer that a library has filled. A buffer without an end gives an empty text and a remark
// that names `what`.
std::string bufferText(const char* buffer, std::size_t bytes, const std::string& what, GpuTopology& topology);

}  // namespace railwise::gpu
