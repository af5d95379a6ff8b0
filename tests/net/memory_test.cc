#include "net/memory.h"

#include <atomic>
#include <thread>
#include <vector>

#include "software_device.h"

namespace railwise::net {
namespace {

constexpr size_t kPage = 4096;

class MemoryTest : public testing::Test {
 protected:
  MemoryTest()
      : context_(device_.open()), pd_(verbs::library().alloc_pd(context_.get())), cache_({pd_.get()}) {}

  uint64_t address(size_t offset) const { return reinterpret_cast<uint64_t>(buffer_) + offset; }
  MemoryHandle* acquire(size_t offset, size_t bytes, MemoryKind kind = MemoryKind::kHost) {
    Result<MemoryHandle*> handle = cache_.acquire(address(offset), bytes, kind);
    EXPECT_TRUE(handle.ok());
    return *handle;
  }

  alignas(kPage) static inline char buffer_[64 * kPage];
  test::SoftwareDevice device_;
  verbs::Context context_;
  verbs::Pd pd_;
  MemoryCache cache_;
};

TEST_F(MemoryTest, TheSameRangeIsRegisteredOnce) {
  MemoryHandle* first = acquire(0, 2 * kPage);
  MemoryHandle* second = acquire(0, 2 * kPage);
  EXPECT_EQ(first, second);
  EXPECT_EQ(cache_.entries(), 1U);
  cache_.release(first);
  EXPECT_EQ(cache_.entries(), 1U);
  cache_.release(second);
  EXPECT_EQ(cache_.entries(), 0U);
}

TEST_F(MemoryTest, ARangeInsideAnotherSharesIt) {
  MemoryHandle* outer = acquire(0, 8 * kPage);
  MemoryHandle* small = acquire(kPage, 4 * kPage);  // begins between outer's start and inner's
  MemoryHandle* inner = acquire(5 * kPage + 10, 100);
  EXPECT_EQ(small, inner) << "holders of parts";
  EXPECT_EQ(outer->keys[0].remote, inner->keys[0].remote);
  EXPECT_EQ(cache_.entries(), 1U);
  for (MemoryHandle* handle : {outer, small, inner}) cache_.release(handle);
  EXPECT_EQ(cache_.entries(), 0U);
}

TEST_F(MemoryTest, OverlappingAndOtherKindsAreRegisteredApart) {
  MemoryHandle* first = acquire(0, 4 * kPage);
  MemoryHandle* overlapping = acquire(2 * kPage, 4 * kPage);
  MemoryHandle* device = acquire(0, 4 * kPage, MemoryKind::kDevice);
  EXPECT_NE(first, overlapping);
  EXPECT_NE(first, device);
  EXPECT_EQ(cache_.entries(), 3U);
  for (MemoryHandle* handle : {device, overlapping, first}) cache_.release(handle);
  EXPECT_EQ(cache_.entries(), 0U);
}

TEST_F(MemoryTest, UnalignedRangesShareTheirPages) {
  MemoryHandle* first = acquire(10, 20);
  MemoryHandle* second = acquire(2000, kPage - 2000);
  EXPECT_EQ(first, second);
  MemoryHandle* across = acquire(kPage - 1, 2);
  EXPECT_NE(across, first);
  for (MemoryHandle* handle : {first, second, across}) cache_.release(handle);
}

TEST_F(MemoryTest, AReleasedRangeIsRegisteredAnew) {
  MemoryHandle* first = acquire(0, kPage);
  const uint32_t key = first->keys[0].remote;
  cache_.release(first);
  MemoryHandle* second = acquire(0, kPage);
  EXPECT_NE(second->keys[0].remote, key) << "a stale key would still reach the memory";
  cache_.release(second);
}

TEST_F(MemoryTest, UnmappedMemoryIsAnError) {
  EXPECT_EQ(cache_.acquire(8, 100, MemoryKind::kHost).status().code, Code::kSystem);
  EXPECT_EQ(cache_.entries(), 0U);
}

TEST_F(MemoryTest, ADmaBufOffsetThatCannotBeIsRefused) {
  EXPECT_EQ(cache_.acquireDmaBuf(address(100), kPage, 0, -1).status().code, Code::kInvalidArgument);
}

TEST_F(MemoryTest, ManyThreadsAgreeOnTheReferences) {
  constexpr int kRounds = 500;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < kRounds; ++i) {
        MemoryHandle* shared = acquire(0, 4 * kPage);
        MemoryHandle* own = acquire(static_cast<size_t>(8 + t) * kPage, kPage);
        cache_.release(shared);
        cache_.release(own);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache_.entries(), 0U);
}

TEST_F(MemoryTest, RegisteredPagesAreZeroAndMovable) {
  Result<RegisteredPages> pages = RegisteredPages::create(pd_.get(), 100);
  ASSERT_TRUE(pages.ok());
  RegisteredPages moved = std::move(*pages);
  EXPECT_EQ(*moved.at<uint64_t>(kPage - 8), 0U);
  EXPECT_EQ(moved.address() % kPage, 0U);
  EXPECT_NE(moved.remoteKey(), 0U);
}

}  // namespace
}  // namespace railwise::net
