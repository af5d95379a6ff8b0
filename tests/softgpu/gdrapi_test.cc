// libgdrapi.so.2 as NCCL opens it.
#include <dlfcn.h>
#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "softgpu/checks.h"
#include "softgpu/gdrapi_api.h"

namespace softgpu {
namespace {

constexpr size_t kGpuPage = 64 << 10;

class SoftgpuGdrapi : public testing::Test {
 protected:
  void SetUp() override {
    library_ = dlopen(SOFTGPU_GDRAPI_PATH, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(nullptr, library_) << dlerror();
    gdr_ = function<gdr_t()>("gdr_open")();
    ASSERT_NE(nullptr, gdr_);
  }
  void TearDown() override { EXPECT_EQ(0, function<int(gdr_t)>("gdr_close")(gdr_)); }
  template <typename Signature>
  Signature* function(const char* name) {
    auto* const found = reinterpret_cast<Signature*>(dlsym(library_, name));
    EXPECT_NE(nullptr, reinterpret_cast<void*>(found)) << name;
    return found;
  }
  int pin(const void* at, size_t bytes) {
    return function<int(gdr_t, unsigned long, size_t, uint64_t, uint32_t, gdr_mh_t*)>("gdr_pin_buffer")(
        gdr_, reinterpret_cast<unsigned long>(at), bytes, 0, 0, &handle_);
  }
  int unpin() { return function<int(gdr_t, gdr_mh_t)>("gdr_unpin_buffer")(gdr_, handle_); }
  int map(void** mapping, size_t bytes) {
    return function<int(gdr_t, gdr_mh_t, void**, size_t)>("gdr_map")(gdr_, handle_, mapping, bytes);
  }
  int unmap(void* mapping, size_t bytes) {
    return function<int(gdr_t, gdr_mh_t, void*, size_t)>("gdr_unmap")(gdr_, handle_, mapping, bytes);
  }
  gdr_info_v2_t info() {
    gdr_info_v2_t all = {};
    EXPECT_EQ(0, function<int(gdr_t, gdr_mh_t, gdr_info_v2_t*)>("gdr_get_info_v2")(gdr_, handle_, &all));
    return all;
  }

  void* library_ = nullptr;
  gdr_t gdr_ = nullptr;
  gdr_mh_t handle_ = {};
};

TEST_F(SoftgpuGdrapi, MapsDeviceMemoryAtAnotherAddress) {
  auto* const device = onDevice<int>(kGpuPage / sizeof(int));
  ASSERT_EQ(0, pin(device, kGpuPage));
  EXPECT_EQ(GDR_MAPPING_TYPE_NONE, info().mapping_type);
  void* mapping = nullptr;
  ASSERT_EQ(0, map(&mapping, kGpuPage));
  EXPECT_NE(device, mapping);
  EXPECT_EQ(GDR_MAPPING_TYPE_CACHING, info().mapping_type);
  EXPECT_EQ(reinterpret_cast<uint64_t>(device), info().info.va);
  EXPECT_EQ(kGpuPage, info().info.mapped_size);

  const int sent[] = {11, 12};
  using CopyTo = int(gdr_mh_t, void*, const void*, size_t);
  ASSERT_EQ(
      0, function<CopyTo>("gdr_copy_to_mapping")(handle_, static_cast<int*>(mapping) + 5, sent, sizeof sent));
  int seen[2] = {};
  ASSERT_CUDA(cudaMemcpy(seen, device + 5, sizeof seen, cudaMemcpyDeviceToHost));
  EXPECT_EQ(12, seen[1]);
  ASSERT_CUDA(cudaMemset(device, 1, kGpuPage));
  using CopyFrom = int(gdr_mh_t, void*, const void*, size_t);
  ASSERT_EQ(0, function<CopyFrom>("gdr_copy_from_mapping")(handle_, seen, mapping, sizeof seen));
  EXPECT_EQ(0x01010101, seen[0]);

  EXPECT_EQ(EAGAIN, map(&mapping, kGpuPage));
  EXPECT_EQ(EINVAL, unmap(device, kGpuPage));
  ASSERT_EQ(0, unmap(mapping, kGpuPage));
  EXPECT_EQ(EINVAL, unmap(mapping, kGpuPage));
  ASSERT_EQ(0, unpin());
  EXPECT_EQ(EINVAL, unpin());
  ASSERT_CUDA(cudaFree(device));
}

// As NCCL pins: the part of an allocation that begins at a GPU page.
TEST_F(SoftgpuGdrapi, MapsThePartOfAnAllocationThatIsPinned) {
  auto* const device = onDevice<char>(3 * kGpuPage);
  char* const part = device + kGpuPage;
  ASSERT_EQ(0, pin(part, kGpuPage));
  void* mapping = nullptr;
  ASSERT_EQ(0, map(&mapping, kGpuPage));
  part[3] = 7;
  EXPECT_EQ(7, static_cast<char*>(mapping)[3]);
  EXPECT_EQ(reinterpret_cast<uint64_t>(part), info().info.va);
  ASSERT_EQ(0, unpin());  // ends the mapping, too
}

// As NCCL has its memory where cuMem is there.
TEST_F(SoftgpuGdrapi, MapsMemoryOfCuMem) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  constexpr size_t kBytes = 2 << 20;
  CUmemGenericAllocationHandle memory = 0;
  ASSERT_CUDA(cudaFree(nullptr));
  ASSERT_EQ(CUDA_SUCCESS, driver<decltype(&cuMemCreate)>("cuMemCreate")(&memory, kBytes, &properties, 0));
  CUdeviceptr at = 0;
  ASSERT_EQ(CUDA_SUCCESS,
            driver<decltype(&cuMemAddressReserve)>("cuMemAddressReserve")(&at, 2 * kBytes, 0, 0, 0));
  at += kBytes;  // the mapping does not begin where the reservation does
  ASSERT_EQ(CUDA_SUCCESS, driver<decltype(&cuMemMap)>("cuMemMap")(at, kBytes, 0, memory, 0));
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  ASSERT_EQ(CUDA_SUCCESS, driver<decltype(&cuMemSetAccess)>("cuMemSetAccess")(at, kBytes, &access, 1));

  auto* const device = reinterpret_cast<char*>(at);
  ASSERT_EQ(0, pin(device + kGpuPage, kGpuPage));
  void* mapping = nullptr;
  ASSERT_EQ(0, map(&mapping, kGpuPage));
  static_cast<char*>(mapping)[8] = 6;
  EXPECT_EQ(6, device[kGpuPage + 8]);
}

// info.va tells where the mapping begins.
TEST_F(SoftgpuGdrapi, MapsWholePagesAroundAnOddRange) {
  auto* const device = onDevice<char>(kGpuPage);
  ASSERT_EQ(0, pin(device + 5000, 10));
  void* mapping = nullptr;
  ASSERT_EQ(0, map(&mapping, 10));
  const uint64_t offset = reinterpret_cast<uint64_t>(device + 5000) - info().info.va;
  EXPECT_LT(offset, 5000U);
  device[5000] = 9;
  EXPECT_EQ(9, static_cast<char*>(mapping)[offset]);
}

TEST_F(SoftgpuGdrapi, PinsDeviceMemoryAlone) {
  char own[64] = {};
  void* pinned = nullptr;
  ASSERT_CUDA(cudaHostAlloc(&pinned, kGpuPage, 0));
  EXPECT_EQ(EINVAL, pin(own, sizeof own));
  EXPECT_EQ(EINVAL, pin(pinned, kGpuPage));
  auto* const device = onDevice<char>(kGpuPage);
  EXPECT_EQ(EINVAL, pin(device, 2 * kGpuPage));
  EXPECT_EQ(EINVAL, pin(device, 0));
}

TEST_F(SoftgpuGdrapi, PinsWithFlags) {
  auto* const device = onDevice<char>(kGpuPage);
  using Pin = int(gdr_t, unsigned long, size_t, uint32_t, gdr_mh_t*);
  const auto pin_v2 = function<Pin>("gdr_pin_buffer_v2");
  const auto at = reinterpret_cast<unsigned long>(device);
  EXPECT_EQ(EINVAL, pin_v2(gdr_, at, kGpuPage, 2, &handle_));
  ASSERT_EQ(0, pin_v2(gdr_, at, kGpuPage, GDR_PIN_FLAG_FORCE_PCIE, &handle_));
  EXPECT_EQ(kGpuPage, info().info.mapped_size);
}

// The structure of GDRCopy 2.1, which NCCL up to 2.30 hands over, has no field for the type.
TEST_F(SoftgpuGdrapi, FillsTheOlderStructureAndNoMore) {
  ASSERT_EQ(0, pin(onDevice<char>(kGpuPage), kGpuPage));
  gdr_info_v2_t all;
  std::memset(&all, 0x5a, sizeof all);
  const gdr_info_v2_t before = all;
  ASSERT_EQ(0, function<int(gdr_t, gdr_mh_t, gdr_info_t*)>("gdr_get_info")(gdr_, handle_, &all.info));
  EXPECT_EQ(kGpuPage, all.info.mapped_size);
  EXPECT_EQ(kGpuPage, all.info.page_size);
  EXPECT_EQ(0, std::memcmp(&before.mapping_type, &all.mapping_type, sizeof all.mapping_type));
}

// A descriptor that is left open would be handed out again as one above those that were.
TEST_F(SoftgpuGdrapi, LeavesNothingOpen) {
  const auto nextDescriptor = [] {
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(fd);
    return fd;
  };
  auto* const device = onDevice<char>(kGpuPage);
  const int before = nextDescriptor();
  ASSERT_EQ(0, pin(device, kGpuPage));
  EXPECT_NE(before, nextDescriptor());
  ASSERT_EQ(0, unpin());
  EXPECT_EQ(before, nextDescriptor());
}

// NCCL wants 2.1 of both, and from 2.5 on it pins with flags.
TEST_F(SoftgpuGdrapi, SaysItsVersions) {
  int library[2] = {};
  int driver[2] = {};
  function<void(int*, int*)>("gdr_runtime_get_version")(&library[0], &library[1]);
  ASSERT_EQ(0, function<int(gdr_t, int*, int*)>("gdr_driver_get_version")(gdr_, &driver[0], &driver[1]));
  EXPECT_EQ(2, library[0]);
  EXPECT_EQ(5, library[1]);
  EXPECT_EQ(2, driver[0]);
  EXPECT_EQ(5, driver[1]);
  int persistent = 0;
  using Attribute = int(gdr_t, gdr_attr_t, int*);
  ASSERT_EQ(0, function<Attribute>("gdr_get_attribute")(gdr_, GDR_ATTR_USE_PERSISTENT_MAPPING, &persistent));
  EXPECT_EQ(1, persistent);
}

}  // namespace
}  // namespace softgpu
