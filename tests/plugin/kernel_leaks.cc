#include "tests/plugin/kernel_leaks.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "tests/plugin/api.h"
#include "tests/plugin/test_device.h"

namespace railwise::test {
namespace {

// As src/net/window_arena.cc has them: an arena begins with a piece of this size, and each further one is
// twice as large, up to the largest.
constexpr uint64_t kFirstPiece = 64 << 10;
constexpr uint64_t kLargestPiece = 2 << 20;

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

// The suites are named by the version: "CloseTest/8".
bool hasSharedContext(const testing::TestInfo& test) {
  const std::string suite = test.test_suite_name();
  const std::size_t slash = suite.rfind('/');
  return slash != std::string::npos && std::stoi(suite.substr(slash + 1)) <= 10;
}

// How many devices the plugin has, fused ones too; 0 when it is not in use.
std::size_t pluginDevices() {
  int count = 0;
  return Api<12>::table().devices(&count) == ncclSuccess ? static_cast<std::size_t>(count) : 0;
}

}  // namespace

std::string leftBehind(const std::vector<KernelObject>& objects, bool shared, std::size_t devices) {
  if (objects.empty()) return "";
  if (!shared) return "the kernel holds " + describe(objects);
  std::map<std::string, std::map<std::string, std::size_t>> counts;
  std::map<std::string, std::map<uint64_t, std::size_t>> registered;
  for (const KernelObject& object : objects) {
    if (object.kind == "mr") ++registered[object.device][object.bytes];
    else ++counts[object.device][object.kind];
  }
  const std::map<std::string, std::size_t> expected = {{"ctx", 1}, {"pd", 1}};
  bool right = counts.size() == realDevices().size();
  for (const RealDevice& device : realDevices())
    right = right && counts[device.name] == expected && arePieces(registered[device.name], devices);
  if (right) return "";
  return "of a context and a protection domain of each device, and the pieces of at most " +
         std::to_string(devices) + " arenas, the kernel holds " + describe(objects);
}

void KernelLeaks::OnTestEnd(const testing::TestInfo& test) {
  try {
    const std::string wrong = leftBehind(kernelObjects(getpid()), hasSharedContext(test), pluginDevices());
    if (wrong != known_) EXPECT_EQ(wrong, "");
    known_ = wrong;
  } catch (const std::runtime_error& error) {
    ADD_FAILURE() << error.what();
  }
}

}  // namespace railwise::test
