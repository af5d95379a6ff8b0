// GPU memory on the software device: what the plugin says of it, and data that arrive in it, registered by
// address and as a dma-buf. A software GPU's memory is a memory file that its process has mapped.
#include <sys/mman.h>
#include <unistd.h>

#include "api.h"

namespace railwise::test {
namespace {

template <typename A>
class GpuDirectTest : public ApiTest<A> {};
TYPED_TEST_SUITE(GpuDirectTest, AllVersions, VersionName);

constexpr size_t kPage = 4096;
constexpr size_t kBytes = 16 * kPage;

// Memory of a software GPU, of which all but the first page is registered: a dma-buf begins in a file where
// NCCL says.
template <typename A>
class GpuMemory {
 public:
  GpuMemory(void* comm, int type, int seed = 0) : comm_(comm), fd_(memfd_create("railwise-test-gpu", 0)) {
    EXPECT_EQ(ftruncate(fd_, kPage + kBytes), 0);
    memory_ = static_cast<char*>(mmap(nullptr, kPage + kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));
    for (size_t i = 0; i < kBytes; ++i) data()[i] = Memory<A>::pattern(seed, i);
    if (type == NCCL_PTR_DMABUF) {
      const int fd = dup(fd_);
      EXPECT_EQ(A::table().regMrDmaBuf(comm, data(), kBytes, NCCL_PTR_CUDA, kPage, fd, &handle_), ncclSuccess)
          << warnings();
      close(fd);  // as NCCL does
    } else {
      EXPECT_EQ(A::regMr(comm, data(), kBytes, &handle_, type), ncclSuccess) << warnings();
    }
  }
  ~GpuMemory() {
    EXPECT_EQ(A::table().deregMr(comm_, handle_), ncclSuccess);
    munmap(memory_, kPage + kBytes);
    close(fd_);
  }
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  char* data() const { return memory_ + kPage; }
  void* handle() const { return handle_; }
  // How many of `count` bytes from `at` on differ from the beginning of the pattern of `seed`.
  size_t wrong(int seed, size_t count, size_t at) const {
    size_t found = 0;
    for (size_t i = 0; i < count; ++i) found += data()[at + i] != Memory<A>::pattern(seed, i);
    return found;
  }

 private:
  void* comm_;
  int fd_;
  char* memory_;
  void* handle_ = nullptr;
};

template <typename A>
int pointersOf(const std::string& device) {
  Session<A> session(device);
  typename A::Properties properties = {};
  EXPECT_EQ(A::table().getProperties(0, &properties), ncclSuccess);
  return properties.ptrSupport;
}

TYPED_TEST(GpuDirectTest, PointersOfAllKindsAreSupported) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("gpudirect is its setting");
  EXPECT_EQ(pointersOf<TypeParam>("gpudirect=on"), NCCL_PTR_HOST | NCCL_PTR_CUDA | NCCL_PTR_DMABUF);
}

// Earlier versions keep their devices as long as the process.
TEST(GpuDirectPointers, AreThoseOfTheDevice) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("gpudirect is its setting");
  const std::vector<std::pair<std::string, int>> expected = {
      {"gpudirect=off", NCCL_PTR_HOST},
      {"gpudirect=peermem", NCCL_PTR_HOST | NCCL_PTR_CUDA},
      {"gpudirect=dmabuf", NCCL_PTR_HOST | NCCL_PTR_DMABUF},
      {"gpudirect=on,dmabuf=off", NCCL_PTR_HOST | NCCL_PTR_CUDA},
      {"gpudirect=on,link=iwarp", NCCL_PTR_HOST}};  // which cannot flush
  for (const auto& [device, support] : expected) EXPECT_EQ(pointersOf<Api<12>>(device), support) << device;
}

// Received into GPU memory and flushed: messages small enough to travel inline, and longer ones.
template <typename A>
void exchange(int type, const std::string& device = "gpudirect=on") {
  Pair<A> pair(device);
  const GpuMemory<A> from(pair.send(), type, 3);
  const GpuMemory<A> to(pair.receive(), type);
  for (const size_t bytes : {size_t{1}, size_t{200}, size_t{5000}, kBytes - 77}) {
    std::memset(to.data(), 0, kBytes);
    void* receive = startReceive<A>(pair.receive(), {{to.data() + 77, bytes, 0, to.handle()}});
    finish<A>(startSend<A>(pair.send(), from.data(), bytes, 0, from.handle()));
    int size = 0;
    finish<A>(receive, &size);
    ASSERT_EQ(size, static_cast<int>(bytes));
    void *data = to.data() + 77, *handle = to.handle(), *flush = nullptr;
    ASSERT_EQ(A::table().iflush(pair.receive(), 1, &data, &size, &handle, &flush), ncclSuccess);
    finish<A>(flush);
    EXPECT_EQ(to.wrong(3, bytes, 77), 0U) << bytes;
    EXPECT_EQ(to.data()[76], 0);
  }
  EXPECT_EQ(warnings(), "");
}

TYPED_TEST(GpuDirectTest, DataArriveInMemoryRegisteredByAddress) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("the memory is no GPU's");
  exchange<TypeParam>(NCCL_PTR_CUDA);
}

TYPED_TEST(GpuDirectTest, DataArriveInADmaBuf) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("the memory is no GPU's");
  exchange<TypeParam>(NCCL_PTR_DMABUF);
}

// RCCL with NCCL_DMABUF_ENABLE=1 asks so where NCCL_PTR_CUDA alone was offered.
TEST(GpuDirectPointers, ADmaBufIsTakenWhereOnlyPeerMemoryIsOffered) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("the memory is no GPU's");
  exchange<Api<11>>(NCCL_PTR_DMABUF, "gpudirect=peermem");
}

// A file that ends before the range does.
TYPED_TEST(GpuDirectTest, ADmaBufThatIsTooShortIsRefused) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("the memory is no GPU's");
  Pair<TypeParam> pair("gpudirect=on");
  const int fd = memfd_create("railwise-test-gpu", 0);
  ASSERT_EQ(ftruncate(fd, kPage), 0);
  void* memory = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  void* handle = kStale;
  EXPECT_EQ(TypeParam::table().regMrDmaBuf(pair.receive(), memory, 2 * kPage, NCCL_PTR_CUDA, 0, fd, &handle),
            ncclSystemError);
  EXPECT_EQ(handle, nullptr);
  munmap(memory, kPage);
  close(fd);
}

}  // namespace
}  // namespace railwise::test
