// What connections that come and go leave behind: nothing that grows. On real devices in the kernel, on the
// software device in files.
#include <unistd.h>

#include <filesystem>

#include "api.h"
#include "kernel_leaks.h"
#include "tests/kernel_objects.h"

namespace railwise::test {
namespace {

template <typename A>
class LeakTest : public ApiTest<A> {
 protected:
  // Sends a message, and flushes what came of it.
  static void transfer(Pair<A>& pair) {
    Memory<A> from(pair.send(), 70'000, 1);
    Memory<A> to(pair.receive(), 70'000, 0, onIwarp() ? NCCL_PTR_HOST : NCCL_PTR_CUDA);
    void* const receive = startReceive<A>(pair.receive(), {{to.data(), 70'000, 3, to.handle()}});
    finish<A>(startSend<A>(pair.send(), from.data(), 70'000, 3, from.handle()));
    finish<A>(receive);
    EXPECT_EQ(to.wrong(1, 70'000), 0U);
    void *data = to.data(), *handle = to.handle(), *flush = nullptr;
    int size = 70'000;
    ASSERT_EQ(A::table().iflush(pair.receive(), 1, &data, &size, &handle, &flush), ncclSuccess);
    if (!onIwarp()) finish<A>(flush);
  }

  static std::string held() {
    if (onRealDevices()) return describe(kernelObjects(getpid()));
    std::string files;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
      files += entry.path().filename().string() + " ";
    return files;
  }

  // The devices to connect, the last of them fused where the version and the machine have that.
  static std::vector<int> devices() {
    std::vector<int> found;
    for (int device = 0; device < deviceCount(); ++device) found.push_back(device);
    if constexpr (A::kVersion >= 9) {
      if (deviceCount() < 2) return found;
      decltype(typename A::Properties{}.vProps) props = {};
      props.ndevs = 2;
      props.devs[1] = 1;
      EXPECT_EQ(A::table().makeVDevice(&found.emplace_back(), &props), ncclSuccess);
    }
    return found;
  }
};
TYPED_TEST_SUITE(LeakTest, AllVersions, VersionName);

TYPED_TEST(LeakTest, ConnectionsThatComeAndGoLeaveNothingThatGrows) {
  Session<TypeParam> session;
  const std::vector<int> devices = this->devices();
  std::string at_rest;
  for (int round = 0; round < 4; ++round) {
    {
      std::vector<std::unique_ptr<Pair<TypeParam>>> pairs;
      for (const int device : devices) {
        pairs.push_back(std::make_unique<Pair<TypeParam>>(session, device, devices.back()));
        this->transfer(*pairs.back());
      }
      EXPECT_NE(this->held(), at_rest) << "that is not the way to ask";
      // Would the check behind every test (main.cc) see what is still there?
      if (onRealDevices()) EXPECT_NE(leftBehind(kernelObjects(getpid()), {!TypeParam::kHasContext}), "");
      for (auto& pair : pairs) pair->close(round % 2 == 0);
    }
    const std::string left = this->held();
    if (round > 0) EXPECT_EQ(left, at_rest) << "after round " << round;
    at_rest = left;
  }
}

}  // namespace
}  // namespace railwise::test
