#include "tests/plugin/kernel_leaks.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "base/clock.h"
#include "tests/plugin/api.h"
#include "tests/plugin/test_device.h"

namespace railwise::test {
namespace {

// As src/net/device/window_arena.cc has them: an arena begins with a piece of this size, and each further one
// is twice as large, up to the largest.
constexpr uint64_t kFirstPiece = 64 << 10;
constexpr uint64_t kLargestPiece = 2 << 20;
constexpr auto kDestroyed = std::chrono::seconds(10);

// Are these the pieces of at most `arenas` arenas, and nothing else?
bool arePieces(std::map<uint64_t, std::size_t> sizes, std::size_t arenas) {
  std::size_t before = arenas;
  for (uint64_t piece = kFirstPiece; piece < kLargestPiece; piece *= 2) {
    const std::size_t count = sizes[piece];
    sizes.erase(piece);
    if (count > before) return false;
    before = count;
  }
  if (before == 0 && sizes.contains(kLargestPiece)) return false;
  sizes.erase(kLargestPiece);
  return sizes.empty();
}

bool managerIsLoaded() {
  void* const library = dlopen("librdmacm.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library != nullptr) dlclose(library);
  return library != nullptr;
}

// The suites are named by the version: "CloseTest/8".
bool hasSharedContext(const testing::TestInfo& test) {
  const std::string suite = test.test_suite_name();
  const std::size_t slash = suite.rfind('/');
  return slash != std::string::npos && std::stoi(suite.substr(slash + 1)) <= 10;
}

// How many devices the plugin has, fused ones too.
std::size_t pluginDevices() {
  int count = 0;
  return Api<12>::table().devices(&count) == ncclSuccess ? static_cast<std::size_t>(count) : 0;
}

}  // namespace

std::string leftBehind(const std::vector<KernelObject>& objects, const AtRest& rest) {
  if (objects.empty()) return "";
  struct Held {
    std::map<std::string, std::size_t> counts;   // by kind
    std::map<uint64_t, std::size_t> registered;  // by size
    bool chosen = false;                         // the plugin may use it
  };
  std::map<std::string, Held> held;
  for (const RealDevice& device : realDevices()) held[device.name].chosen = true;
  for (const KernelObject& object : objects) {
    if (object.kind == "mr") ++held[object.device].registered[object.bytes];
    else ++held[object.device].counts[object.kind];
  }
  bool right = true;
  std::size_t queue_pairs = 0;
  for (auto& [device, its] : held) {
    const std::size_t own = rest.shared && its.chosen ? 1 : 0;
    const std::size_t contexts = its.counts["ctx"];
    const std::size_t here = its.counts["qp"];
    // librdmacm has a protection domain of its own on a device for as long as an id is bound to it.
    const std::size_t domains =
        its.counts["pd"] - std::min<std::size_t>(its.counts["pd"], its.counts["cm_id"] > 0);
    right &= contexts >= own && contexts <= own + (managerIsLoaded() ? 1 : 0) && domains <= own &&
             its.counts["pd"] >= own && its.counts["cq"] <= here && its.counts["cm_id"] <= here &&
             its.counts["srq"] == 0 && arePieces(its.registered, rest.shared ? rest.devices : 0);
    queue_pairs += here;
  }
  right &= queue_pairs >= rest.fewest_queue_pairs && queue_pairs <= rest.most_queue_pairs;
  return right ? "" : "the kernel holds " + describe(objects);
}

void KernelLeaks::OnTestEnd(const testing::TestInfo& test) {
  try {
    const auto wrongNow = [&] {
      const std::vector<KernelObject> objects = kernelObjects(getpid());
      AtRest rest;
      rest.shared = hasSharedContext(test) && !objects.empty();
      if (rest.shared) {
        rest.devices = pluginDevices();
        rest.fewest_queue_pairs = rest.most_queue_pairs = g_forgotten_attempts;  // each of one rail
      }
      return leftBehind(objects, rest);
    };
    // Threads of the devices destroy what a failed connection had; on an emulated CPU that takes a moment.
    std::string wrong = wrongNow();
    for (const Deadline end = Deadline::after(kDestroyed);
         !wrong.empty() && wrong != known_ && !end.passed();) {
      usleep(20'000);
      wrong = wrongNow();
    }
    if (wrong != known_) EXPECT_EQ(wrong, "");
    known_ = wrong;
  } catch (const std::runtime_error& error) {
    ADD_FAILURE() << error.what();
  }
}

}  // namespace railwise::test
