// makeVDevice: devices of several rails, as NCCL makes and uses them (versions 9 to 12).
#include <numeric>

#include "api.h"
#include "tests/ok.h"

namespace railwise::test {
namespace {

template <typename A>
class VirtualDevicesTest : public testing::Test {
 protected:
  // Makes a device of `members`; its index, or -1.
  int make(const std::vector<int>& members) {
    decltype(typename A::Properties{}.vProps) props = {};
    props.ndevs = static_cast<int>(members.size());
    for (std::size_t i = 0; i < members.size() && i < std::size(props.devs); ++i) props.devs[i] = members[i];
    int index = kUnwritten;
    result_ = A::table().makeVDevice(&index, &props);
    return result_ == ncclSuccess ? index : -1;
  }
  static int count() {
    int devices = kUnwritten;
    EXPECT_EQ(A::table().devices(&devices), ncclSuccess);
    return devices;
  }
  static typename A::Properties properties(int index) {
    typename A::Properties filled;
    std::memset(&filled, 0xa5, sizeof filled);
    EXPECT_EQ(A::table().getProperties(index, &filled), ncclSuccess) << warnings();
    return filled;
  }
  static std::string nameOf(const std::vector<int>& members) {
    std::string name;
    for (const int member : members) name += (name.empty() ? "" : "+") + std::string(properties(member).name);
    return name;
  }
  // What the version allows.
  static constexpr int kMost = A::kVersion >= 12 ? 8 : 4;

  ncclResult_t result_ = ncclSuccess;
};
using VersionsWithVirtualDevices = testing::Types<Api<9>, Api<10>, Api<11>, Api<12>>;
TYPED_TEST_SUITE(VirtualDevicesTest, VersionsWithVirtualDevices, VersionName);

TYPED_TEST(VirtualDevicesTest, AreCountedBehindThePhysicalOnes) {
  RAILWISE_NEEDS_DEVICES(2);
  Session<TypeParam> session("count=8");
  const int devices = deviceCount(8);
  EXPECT_EQ(this->count(), devices);
  std::vector<std::vector<int>> fusions = {{0, 1}, {4, 5, 6}};
  if (devices < 8) fusions[1] = {1, 0};
  for (std::size_t i = 0; i < fusions.size(); ++i) {
    const std::vector<int>& members = fusions[i];
    const int index = devices + static_cast<int>(i);
    EXPECT_EQ(this->make(members), index);
    EXPECT_EQ(this->count(), index + 1);
    const auto fused = this->properties(index);
    EXPECT_EQ(fused.name, this->nameOf(members));
    EXPECT_EQ(fused.vProps.ndevs, std::ssize(members));
    int speed = 0;
    for (std::size_t m = 0; m < members.size(); ++m) {
      EXPECT_EQ(fused.vProps.devs[m], members[m]);
      speed += this->properties(members[m]).speed;
    }
    EXPECT_EQ(fused.speed, speed);
  }
  const auto physical = this->properties(1);
  EXPECT_EQ(physical.vProps.ndevs, 1);
  EXPECT_EQ(physical.vProps.devs[0], 1);
  if (!onRealDevices()) {
    EXPECT_STREQ(this->properties(8).name, "soft0+soft1");
    EXPECT_EQ(this->properties(8).speed, 800000);
  }
}

TYPED_TEST(VirtualDevicesTest, OfOneIsThatOne) {
  RAILWISE_NEEDS_DEVICES(2);
  Session<TypeParam> session("count=2");
  EXPECT_EQ(this->make({1}), 1);
  EXPECT_EQ(this->count(), deviceCount(2));
}

TYPED_TEST(VirtualDevicesTest, BadOnesAreRefusedByName) {
  RAILWISE_NEEDS_DEVICES(2);
  Session<TypeParam> session("count=9;name=ib,link=ib");
  const int devices = deviceCount(10);
  struct Case {
    std::vector<int> members;
    std::string expected;
  };
  std::vector<int> too_many(this->kMost + 1);
  std::iota(too_many.begin(), too_many.end(), 0);
  const std::string second = this->properties(1).name;
  std::vector<Case> cases = {{{}, "0 devices to fuse"},
                             {{0, devices}, "device " + std::to_string(devices) + " is not a physical one"},
                             {{-1, 0}, "device -1 is not a physical one"},
                             {{1, 1}, second + " is named twice"}};
  if (!onRealDevices()) {
    cases.push_back({{0, 9}, "soft0 and ib have different link layers"});
    cases.push_back({too_many, "devices to fuse, 1 to"});
  }
  for (const Case& bad : cases) {
    clearLog();
    EXPECT_EQ(this->make(bad.members), -1);
    EXPECT_EQ(this->result_, ncclInvalidArgument);
    EXPECT_HAS(warnings(), bad.expected);
  }
  EXPECT_EQ(this->count(), devices) << "nothing was made";
}

TYPED_TEST(VirtualDevicesTest, AreForbiddenByMergeNics) {
  RAILWISE_NEEDS_DEVICES(2);
  const Setting setting("NCCL_IB_MERGE_NICS", "0");
  Session<TypeParam> session("count=2");
  EXPECT_EQ(this->make({0, 1}), -1);
  EXPECT_EQ(this->result_, ncclInvalidUsage);
}

// NCCL asks for one device of all that have no PCI place, and then loses it. It goes on with each alone.
TYPED_TEST(VirtualDevicesTest, OfDevicesWithoutAPciPlaceAreRefused) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("it says where its devices are");
  setenv("RAILWISE_FUSE_PLACELESS", "0", 1);
  const std::string card = "pci=/sys/devices/pci0000:3a/0000:3b:00.";
  Session<TypeParam> session("name=a," + card + "0;name=b," + card + "1;name=c");
  EXPECT_EQ(this->make({0, 2}), -1);
  EXPECT_EQ(this->result_, ncclInvalidUsage);
  EXPECT_EQ(this->make({0, 1}), 3);
  unsetenv("RAILWISE_FUSE_PLACELESS");
}

TYPED_TEST(VirtualDevicesTest, CarryGroupsOfEverySize) {
  RAILWISE_NEEDS_DEVICES(2);
  for (int rails = 2; rails <= std::min(this->kMost, deviceCount(8)); rails += 2) {
    Session<TypeParam> session(rails % 4 == 0 ? "count=8,link=ib" : "count=7;name=slow,speed=100000");
    std::vector<int> members(static_cast<std::size_t>(rails));
    std::iota(members.begin(), members.end(), 0);
    const int device = this->make(members);
    Pair<TypeParam> pair(session, device, device);
    for (const size_t bytes : {size_t{1}, size_t{65'537}, size_t{3'000'001}}) {
      Memory<TypeParam> from(pair.send(), bytes, 3);
      Memory<TypeParam> to(pair.receive(), bytes);
      int size = 0;
      void* receive = startReceive<TypeParam>(pair.receive(), {{to.data(), bytes, 5, to.handle()}});
      finish<TypeParam>(startSend<TypeParam>(pair.send(), from.data(), bytes, 5, from.handle()));
      finish<TypeParam>(receive, &size);
      EXPECT_EQ(size, static_cast<int>(bytes));
      EXPECT_EQ(to.wrong(3, bytes), 0U) << rails << " rails, " << bytes << " bytes";
    }
  }
}

template <typename A>
class VirtualDevicesReloadTest : public VirtualDevicesTest<A> {};
TYPED_TEST_SUITE(VirtualDevicesReloadTest, ContextVersions, VersionName);

// NCCL that has unloaded the plugin asks for the number of devices first and takes it for the physical ones.
TYPED_TEST(VirtualDevicesReloadTest, AfterUnloadingOnlyPhysicalOnesCount) {
  RAILWISE_NEEDS_DEVICES(2);
  const int devices = deviceCount(4);
  {
    Session<TypeParam> session("count=4");
    EXPECT_EQ(this->make({0, 1}), devices);
  }
  Session<TypeParam> session("count=4");
  EXPECT_EQ(this->count(), devices);
  EXPECT_EQ(this->make({devices - 1, devices - 2}), devices);
  EXPECT_EQ(this->properties(devices).name, this->nameOf({devices - 1, devices - 2}));
  EXPECT_EQ(this->count(), devices + 1);
}

// With NCCL_NET_PLUGIN_REF_COUNT=1 it remembers the virtual ones and uses them without asking.
TYPED_TEST(VirtualDevicesReloadTest, AfterFinalizeTheyAreStillThere) {
  RAILWISE_NEEDS_DEVICES(2);
  const int devices = deviceCount(4);
  {
    Session<TypeParam> session("count=4");
    EXPECT_EQ(this->make({0, 1}), devices);
    EXPECT_EQ(this->make({devices - 1, devices - 2}), devices + 1);
  }
  Session<TypeParam> session("count=4");
  EXPECT_EQ(this->properties(devices + 1).name, this->nameOf({devices - 1, devices - 2}));
  Pair<TypeParam> pair(session, devices + 1, devices);
}

}  // namespace
}  // namespace railwise::test
