#include "net/device/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <list>
#include <random>
#include <vector>

#include "net/loopback.h"
#include "software_device.h"
#include "tests/ok.h"

namespace railwise::net {
namespace {

constexpr size_t kPage = 4096;
const std::function<bool()> kAlways = [] { return true; };

class MemoryTest : public testing::Test {
 protected:
  MemoryTest()
      : context_(device_.open()), pd_(verbs::library().alloc_pd(context_.get())), cache_({pd_.get()}) {}

  uint64_t address(size_t offset) const { return reinterpret_cast<uint64_t>(buffer_) + offset; }
  MemoryHandle* acquire(size_t offset, size_t bytes, MemoryKind kind = MemoryKind::kHost) {
    Result<MemoryHandle*> handle = cache_.acquire(address(offset), bytes, kind);
    EXPECT_OK(handle);
    return *handle;
  }
  static uint32_t key(const MemoryHandle* handle) { return handle->keys[0].remote(); }

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
  EXPECT_EQ(key(small), key(outer));
  EXPECT_EQ(key(inner), key(outer));
  EXPECT_EQ(cache_.entries(), 1U);
  for (MemoryHandle* handle : {outer, small, inner}) cache_.release(handle);
  EXPECT_EQ(cache_.entries(), 0U);
}

// A part of a relaxed registration would be relaxed, too.
TEST_F(MemoryTest, StrictMemoryIsNoPartOfRelaxedMemory) {
  MemoryCache relaxed({pd_.get()}, {.relaxed_ordering = true});
  MemoryHandle* all = *relaxed.acquire(address(0), 8 * kPage, MemoryKind::kHost);
  MemoryHandle* strict = *relaxed.acquire(address(kPage), kPage, MemoryKind::kHost, MemoryOrder::kStrict);
  EXPECT_NE(key(strict), key(all));
  MemoryHandle* again = *relaxed.acquire(address(kPage), 100, MemoryKind::kHost, MemoryOrder::kStrict);
  EXPECT_EQ(key(again), key(strict));
  MemoryHandle* part = *relaxed.acquire(address(kPage), kPage, MemoryKind::kHost);
  EXPECT_EQ(key(part), key(all));
  for (MemoryHandle* handle : {all, strict, again, part}) relaxed.release(handle);
  EXPECT_EQ(relaxed.entries(), 0U);
}

TEST_F(MemoryTest, WithoutRelaxedOrderingAllMemoryIsStrict) {
  MemoryHandle* all = acquire(0, 8 * kPage);
  MemoryHandle* strict = *cache_.acquire(address(kPage), kPage, MemoryKind::kHost, MemoryOrder::kStrict);
  EXPECT_EQ(key(strict), key(all));
  cache_.release(strict);
  cache_.release(all);
}

TEST_F(MemoryTest, ALargerRangeHidesTheSmallerOnesInIt) {
  MemoryHandle* first = acquire(kPage, kPage);
  MemoryHandle* second = acquire(3 * kPage, 2 * kPage);
  MemoryHandle* beside = acquire(7 * kPage, 2 * kPage);  // reaches beyond the large one
  MemoryHandle* large = acquire(0, 8 * kPage);
  EXPECT_EQ(cache_.entries(), 4U) << "the small ones live on for their holders";
  EXPECT_NE(key(first), key(large));
  MemoryHandle* again = acquire(kPage, kPage);
  EXPECT_EQ(key(again), key(large));
  MemoryHandle* at_the_edge = acquire(7 * kPage, kPage);
  EXPECT_EQ(key(at_the_edge), key(beside)) << "of two that cover it the one that begins later";
  for (MemoryHandle* handle : {first, second}) cache_.release(handle);
  EXPECT_EQ(cache_.entries(), 2U);
  for (MemoryHandle* handle : {large, again, beside, at_the_edge}) cache_.release(handle);
  EXPECT_EQ(cache_.entries(), 0U);
}

// The rule: only while somebody holds all of an entry is it given to others.
TEST_F(MemoryTest, WhatItsOwnerHasLetGoIsNeverGivenToOthers) {
  MemoryHandle* whole = acquire(0, 4 * kPage);
  MemoryHandle* part = acquire(kPage, 100);
  const uint32_t old_key = key(part);
  cache_.release(whole);
  EXPECT_EQ(cache_.entries(), 1U) << "the holder of a part still uses it";
  MemoryHandle* other_part = acquire(2 * kPage, 100);
  MemoryHandle* whole_again = acquire(0, 4 * kPage);
  EXPECT_NE(key(other_part), old_key);
  EXPECT_NE(key(whole_again), old_key);
  cache_.release(part);
  EXPECT_EQ(cache_.entries(), 2U) << "and it died with that holder";
  for (MemoryHandle* handle : {other_part, whole_again}) cache_.release(handle);
  EXPECT_EQ(cache_.entries(), 0U);
}

TEST_F(MemoryTest, AnEntryStaysWhileOneOfSeveralOwnersHoldsIt) {
  MemoryHandle* first = acquire(0, 2 * kPage);
  MemoryHandle* second = acquire(10, 2 * kPage - 20);  // the same pages
  MemoryHandle* part = acquire(0, 1);
  cache_.release(first);
  MemoryHandle* later = acquire(kPage, 1);
  EXPECT_EQ(key(later), key(second));
  cache_.release(part);
  cache_.release(later);
  EXPECT_EQ(cache_.entries(), 1U);
  cache_.release(second);
  EXPECT_EQ(cache_.entries(), 0U);
}

TEST_F(MemoryTest, ReleasesComeInAnyOrder) {
  MemoryHandle* whole = acquire(0, 4 * kPage);
  MemoryHandle* part = acquire(0, kPage);
  cache_.release(part);
  cache_.release(whole);
  EXPECT_EQ(cache_.entries(), 0U);
  MemoryHandle* small = acquire(0, kPage);
  MemoryHandle* large = acquire(0, 4 * kPage);
  cache_.release(large);
  MemoryHandle* again = acquire(0, kPage);
  EXPECT_NE(key(again), key(small)) << "a hidden entry does not come back";
  cache_.release(again);
  cache_.release(small);
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
  const uint32_t old_key = key(first);
  cache_.release(first);
  MemoryHandle* second = acquire(0, kPage);
  EXPECT_NE(key(second), old_key) << "a stale key would still reach the memory";
  cache_.release(second);
}

// The plain words of the rule, against which random acquires and releases are held.
class Model {
 public:
  // The key of what is found, or 0.
  uint32_t find(size_t start, size_t end) {
    Entry* best = nullptr;
    for (Entry& entry : entries_) {
      if (!entry.listed || entry.start > start || entry.end < end) continue;
      if (best == nullptr || entry.start > best->start) best = &entry;
    }
    return best != nullptr ? best->key : 0;
  }
  void add(size_t start, size_t end, uint32_t key) {
    for (Entry& entry : entries_) entry.listed = entry.listed && (entry.start < start || entry.end > end);
    entries_.push_back({start, end, key, 0, 0, true});
  }
  void hold(size_t start, size_t end, uint32_t key, int change) {
    const auto entry = std::find_if(entries_.begin(), entries_.end(), [&](auto& e) { return e.key == key; });
    (entry->start == start && entry->end == end ? entry->whole : entry->parts) += change;
    if (entry->whole == 0) entry->listed = false;
    if (entry->whole + entry->parts == 0) entries_.erase(entry);
  }
  size_t entries() const { return entries_.size(); }

 private:
  struct Entry {
    size_t start, end;
    uint32_t key;
    int whole, parts;
    bool listed;
  };
  std::list<Entry> entries_;
};

TEST_F(MemoryTest, RandomAcquiresAndReleasesFollowTheRule) {
  struct Held {
    MemoryHandle* handle;
    size_t start, end;
  };
  std::mt19937 random(5);
  Model model;
  std::vector<Held> held;
  for (int step = 0; step < 20000; ++step) {
    if (held.size() < 40 && random() % 2 == 0) {
      const size_t start = random() % 16;
      const size_t end = start + 1 + random() % (16 - start);
      MemoryHandle* handle = acquire(start * kPage, (end - start) * kPage);
      const uint32_t expected = model.find(start, end);
      if (expected == 0) model.add(start, end, key(handle));
      if (expected != 0) ASSERT_EQ(key(handle), expected) << step;
      model.hold(start, end, key(handle), 1);
      held.push_back({handle, start, end});
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      model.hold(held.back().start, held.back().end, key(held.back().handle), -1);
      cache_.release(held.back().handle);
      held.pop_back();
    }
    ASSERT_EQ(cache_.entries(), model.entries()) << step;
  }
  for (const Held& each : held) cache_.release(each.handle);
  EXPECT_EQ(cache_.entries(), 0U);
}

// NCCL frees a buffer that one connection still has a part of, and the allocator gives the addresses to the
// next.
TEST_F(MemoryTest, MemoryMappedAgainIsReachedByAKeyOfItsOwn) {
  test::Loopback loopback(context_.get(), pd_.get(), device_.config());
  const auto map = [](void* at) {
    return mmap(at, 2 * kPage, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | (at != nullptr ? MAP_FIXED : 0), -1, 0);
  };
  void* memory = map(nullptr);
  const auto there = reinterpret_cast<uint64_t>(memory);
  MemoryHandle* whole = *cache_.acquire(there, 2 * kPage, MemoryKind::kHost);
  MemoryHandle* part = *cache_.acquire(there, 100, MemoryKind::kHost);
  cache_.release(whole);
  munmap(memory, 2 * kPage);
  ASSERT_EQ(map(memory), memory);
  MemoryHandle* fresh = *cache_.acquire(there, 2 * kPage, MemoryKind::kHost);
  MemoryHandle* fresh_part = *cache_.acquire(there + kPage, 64, MemoryKind::kHost);
  EXPECT_NE(key(fresh), key(part));
  EXPECT_EQ(key(fresh_part), key(fresh));
  const uint32_t old_key = key(part);
  cache_.release(part);
  MemoryHandle* source = acquire(0, kPage);
  std::memset(buffer_, 0x5a, kPage);
  const MemoryKeys from = source->keys[0].both();
  EXPECT_EQ(loopback.write(address(0), from.local, there + kPage, key(fresh_part), 64), IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(static_cast<char*>(memory) + kPage, buffer_, 64), 0);
  EXPECT_EQ(loopback.write(address(0), from.local, there, old_key, 64), IBV_WC_REM_ACCESS_ERR);
  for (MemoryHandle* handle : {source, fresh, fresh_part}) cache_.release(handle);
  munmap(memory, 2 * kPage);
}

TEST_F(MemoryTest, UnmappedMemoryIsAnError) {
  EXPECT_EQ(cache_.acquire(8, 100, MemoryKind::kHost).status().code, Code::kSystem);
  EXPECT_EQ(cache_.entries(), 0U);
}

TEST_F(MemoryTest, ADmaBufOffsetThatCannotBeIsRefused) {
  EXPECT_EQ(cache_.acquireDmaBuf(address(100), kPage, 0, -1).status().code, Code::kInvalidArgument);
}

// For a standby rail, which is found to be needed long after NCCL has closed its dma-buf.
TEST_F(MemoryTest, FurtherDomainsAreRegisteredWhenTheyAreNeeded) {
  const verbs::Pd other(verbs::library().alloc_pd(context_.get()));
  for (const bool dma_buf : {false, true}) {
    MemoryHandle* handle = nullptr;
    if (dma_buf) {
      const int fd = memfd_create("dma-buf", 0);
      ASSERT_EQ(ftruncate(fd, kPage), 0);
      handle = *cache_.acquireDmaBuf(address(4 * kPage), kPage, 0, fd);
      close(fd);
    } else {
      handle = acquire(0, kPage);
    }
    const Result<MemoryKeys> own = cache_.keysOn(*handle, pd_.get());
    ASSERT_OK(own);
    EXPECT_EQ(own->remote, key(handle));
    const Result<MemoryKeys> first = cache_.keysOn(*handle, other.get());
    const Result<MemoryKeys> second = cache_.keysOn(*handle, other.get());
    ASSERT_TRUE(first.ok() && second.ok()) << dma_buf;
    EXPECT_NE(first->remote, key(handle));
    EXPECT_EQ(first->remote, second->remote);
    cache_.release(handle);
  }
  EXPECT_EQ(cache_.entries(), 0U);
}

TEST_F(MemoryTest, IsRegisteredWithTheNextGenerationOfADevice) {
  const verbs::Pd next(verbs::library().alloc_pd(context_.get()));
  MemoryHandle* whole = acquire(0, 4 * kPage);
  MemoryHandle* part = acquire(kPage, 100);
  MemoryHandle* gone = acquire(8 * kPage, kPage);
  const uint32_t before = key(whole);
  cache_.release(gone);
  ASSERT_TRUE(cache_.renew(pd_.get(), next.get(), kAlways));
  MemoryHandle* later = acquire(16 * kPage, kPage);
  EXPECT_NE(key(whole), before);
  EXPECT_EQ(key(part), key(whole));
  for (MemoryHandle* handle : {whole, part, later}) {
    const Result<MemoryKeys> keys = cache_.keysOn(*handle, next.get());
    ASSERT_OK(keys);
    EXPECT_EQ(keys->remote, key(handle));
    cache_.release(handle);
  }
  EXPECT_EQ(cache_.entries(), 0U);
}

TEST_F(MemoryTest, ADmaBufIsRegisteredWithTheNextGenerationWithoutItsDescriptor) {
  const verbs::Pd next(verbs::library().alloc_pd(context_.get()));
  const int fd = memfd_create("dma-buf", 0);
  ASSERT_EQ(ftruncate(fd, kPage), 0);
  MemoryHandle* handle = *cache_.acquireDmaBuf(address(4 * kPage), kPage, 0, fd);
  close(fd);
  const uint32_t before = key(handle);
  ASSERT_TRUE(cache_.renew(pd_.get(), next.get(), kAlways));
  EXPECT_NE(key(handle), before);
  cache_.release(handle);
}

TEST_F(MemoryTest, WhatCannotBeRegisteredWithTheNextGenerationKeepsItsKeys) {
  const verbs::Pd next(verbs::library().alloc_pd(context_.get()));
  const verbs::Pd last(verbs::library().alloc_pd(context_.get()));
  void* const page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  MemoryHandle* handle = *cache_.acquire(reinterpret_cast<uint64_t>(page), kPage, MemoryKind::kHost);
  MemoryHandle* good = acquire(0, kPage);
  const uint32_t before = key(handle);
  const uint32_t good_before = key(good);
  ASSERT_EQ(munmap(page, kPage), 0);  // no device registers that
  EXPECT_FALSE(cache_.renew(pd_.get(), next.get(), kAlways));
  EXPECT_EQ(key(handle), before);
  EXPECT_NE(key(good), good_before) << "one that is refused keeps no other out";
  void* const again =
      mmap(page, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_EQ(again, page);
  EXPECT_TRUE(cache_.renew(next.get(), last.get(), kAlways)) << "what one generation lacks the next one has";
  EXPECT_NE(key(handle), before);
  cache_.release(good);
  cache_.release(handle);
  munmap(page, kPage);
}

TEST_F(MemoryTest, WhoEndsARenewalAsksTheDeviceNothingMore) {
  const verbs::Pd next(verbs::library().alloc_pd(context_.get()));
  MemoryHandle* first = acquire(0, kPage);
  MemoryHandle* second = acquire(2 * kPage, kPage);
  const uint32_t keys[] = {key(first), key(second)};
  int asked = 0;
  EXPECT_FALSE(cache_.renew(pd_.get(), next.get(), [&] { return ++asked == 1; }));
  EXPECT_NE(key(first), keys[0]);
  EXPECT_EQ(key(second), keys[1]);
  cache_.release(first);
  cache_.release(second);
}

TEST_F(MemoryTest, RegisteredPagesAreRegisteredWithTheNextGeneration) {
  const verbs::Pd next(verbs::library().alloc_pd(context_.get()));
  Result<RegisteredPages> pages = RegisteredPages::create(pd_.get(), 100);
  ASSERT_OK(pages);
  const uint32_t before = pages->remoteKey();
  EXPECT_TRUE(pages->renew(next.get(), pd_.get(), kAlways)) << "this generation is not theirs";
  EXPECT_EQ(pages->remoteKey(), before);
  EXPECT_TRUE(pages->renew(pd_.get(), next.get(), kAlways));
  EXPECT_NE(pages->remoteKey(), before);
}

TEST_F(MemoryTest, RegisteredPagesAreZeroAndMovable) {
  Result<RegisteredPages> pages = RegisteredPages::create(pd_.get(), 100);
  ASSERT_OK(pages);
  RegisteredPages moved = std::move(*pages);
  EXPECT_EQ(*moved.at<uint64_t>(kPage - 8), 0U);
  EXPECT_EQ(moved.address() % kPage, 0U);
  EXPECT_NE(moved.remoteKey(), 0U);
}

}  // namespace
}  // namespace railwise::net
