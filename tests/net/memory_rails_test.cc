// The memory cache over several rails, and from several threads.
#include <sys/mman.h>

#include <condition_variable>
#include <thread>
#include <vector>

#include "net/device/memory.h"
#include "net/loopback.h"
#include "software_device.h"
#include "tests/ok.h"
#include "verbs/drivers/fake_mlx5.h"
#include "verbs/drivers/mlx5.h"
#include "verbs/drivers/mlx5_library.h"

namespace railwise::net {
namespace {

constexpr size_t kRailPage = 4096;
alignas(kRailPage) char g_buffer[64 * kRailPage];

uint64_t addressOf(size_t offset) { return reinterpret_cast<uint64_t>(g_buffer) + offset; }

// Three devices; the rails of a cache are protection domains of theirs.
class MemoryRails : public testing::Test {
 protected:
  explicit MemoryRails(const std::string& more = "") : device_("name=a;name=b;name=c" + more) {
    for (int i = 0; i < 3; ++i) {
      contexts_[i] = device_.open(i);
      pds_[i].reset(verbs::library().alloc_pd(contexts_[i].get()));
    }
  }
  ibv_pd* pd(int device) const { return pds_[device].get(); }
  // Whether nothing is registered with a domain any more: then, and only then, it can be freed.
  bool isFree(int device) {
    const bool is_free = verbs::library().dealloc_pd(pds_[device].get()) == 0;
    if (is_free) (void)pds_[device].release();
    return is_free;
  }

  test::SoftwareDevice device_;
  std::array<verbs::Context, 3> contexts_;
  std::array<verbs::Pd, 3> pds_;
};

TEST_F(MemoryRails, EachRailHasItsKeysAndRailsOfADomainShareThem) {
  MemoryCache cache({pd(0), pd(1), pd(0), pd(2)});
  MemoryHandle* handle = *cache.acquire(addressOf(0), 2 * kRailPage, MemoryKind::kHost);
  MemoryHandle* part = *cache.acquire(addressOf(kRailPage), 10, MemoryKind::kHost);
  EXPECT_EQ(cache.entries(), 1U);
  EXPECT_EQ(handle->keys[0].remote(), handle->keys[2].remote());
  EXPECT_NE(handle->keys[0].remote(), handle->keys[1].remote());
  EXPECT_NE(handle->keys[1].remote(), handle->keys[3].remote());
  constexpr int kDevices[] = {0, 1, 0, 2};
  for (size_t rail = 0; rail < 4; ++rail) {
    const int at = kDevices[rail];
    test::Loopback loopback(contexts_[at].get(), pd(at), device_.config());
    g_buffer[0] = static_cast<char>('a' + rail);
    EXPECT_EQ(loopback.write(addressOf(0), handle->keys[rail].local(), addressOf(kRailPage),
                             part->keys[rail].remote(), 1),
              IBV_WC_SUCCESS);
    EXPECT_EQ(g_buffer[kRailPage], 'a' + static_cast<int>(rail));
  }
  cache.release(handle);
  cache.release(part);
  EXPECT_TRUE(isFree(0));
  EXPECT_TRUE(isFree(1));
}

TEST_F(MemoryRails, PagesOfOursHaveKeysForEveryRail) {
  const RailDomain rails[] = {pd(0), pd(1), pd(0)};
  {
    const Result<RegisteredPages> pages = RegisteredPages::create(rails, 100);
    ASSERT_OK(pages);
    EXPECT_EQ(pages->remoteKey(0), pages->remoteKey(2));
    EXPECT_NE(pages->remoteKey(0), pages->remoteKey(1));
    EXPECT_NE(pages->localKey(1), 0U);
  }
  EXPECT_TRUE(isFree(0));
  EXPECT_TRUE(isFree(1));
}

class MemoryRailsWithAFailure : public MemoryRails {
 protected:
  MemoryRailsWithAFailure() : MemoryRails(";fault=device=b verb=reg_mr nth=1 errno=EFAULT") {}
};

TEST_F(MemoryRailsWithAFailure, WhatTheOtherRailsMadeIsReleased) {
  MemoryCache cache({pd(0), pd(1), pd(2)});
  const auto refused = cache.acquire(addressOf(0), kRailPage, MemoryKind::kHost);
  EXPECT_EQ(refused.status().sys_errno, EFAULT);
  EXPECT_EQ(cache.entries(), 0U);
  EXPECT_TRUE(isFree(0)) << "device a had registered already";
  MemoryCache others({pd(1), pd(2)});
  const auto taken = others.acquire(addressOf(0), kRailPage, MemoryKind::kHost);
  ASSERT_OK(taken) << "only the first one fails";
  others.release(*taken);
}

// ---- threads

test::FakeMlx5& fakeDriver() { return test::fakeMlx5(RAILWISE_FAKE_MLX5_PATH); }

// A registration that takes as long as the test wants: through mlx5's data-direct function, which is a
// fakeDriver.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  int entered = 0;
  bool open = false;
  int failures = 0;  // registrations that are refused

  void waitForEntry() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return entered > 0; });
  }
  void unlock() {
    const std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  }
};
Gate* g_gate = nullptr;

ibv_mr* registerThroughGate(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access) {
  {
    std::unique_lock lock(g_gate->mutex);
    ++g_gate->entered;
    g_gate->changed.notify_all();
    g_gate->changed.wait(lock, [] { return g_gate->open; });
    if (g_gate->failures > 0) {
      --g_gate->failures;
      errno = EFAULT;
      return nullptr;
    }
  }
  return verbs::library().reg_dmabuf_mr(pd, offset, length, iova, fd, access);
}

class MemoryThreads : public MemoryRails {
 protected:
  MemoryThreads() : fd_(memfd_create("dma-buf", 0)), cache_({pd(0)}, {.data_direct_rails = 1}) {
    EXPECT_EQ(ftruncate(fd_, 4 * kRailPage), 0);
    fakeDriver() = {};
    fakeDriver().reg_dmabuf_mr = registerThroughGate;
    verbs::setMlx5Library(RAILWISE_FAKE_MLX5_PATH);
    g_gate = &gate_;
  }
  ~MemoryThreads() override { close(fd_); }
  Result<MemoryHandle*> acquireSlowly(size_t bytes = 4 * kRailPage) {
    return cache_.acquireDmaBuf(addressOf(0), bytes, 0, fd_);
  }

  Gate gate_;
  int fd_;
  MemoryCache cache_;
};

TEST_F(MemoryThreads, ASlowRegistrationKeepsNobodyElseWaiting) {
  MemoryHandle* slow = nullptr;
  std::thread thread([&] { slow = *acquireSlowly(); });
  gate_.waitForEntry();
  MemoryHandle* quick = *cache_.acquire(addressOf(8 * kRailPage), kRailPage, MemoryKind::kHost);
  MemoryHandle* again = *cache_.acquire(addressOf(8 * kRailPage), 10, MemoryKind::kHost);
  cache_.release(again);
  cache_.release(quick);
  gate_.unlock();
  thread.join();
  EXPECT_EQ(cache_.entries(), 1U);
  cache_.release(slow);
}

TEST_F(MemoryThreads, ThoseWhoWantTheSameWaitForOneRegistration) {
  std::array<MemoryHandle*, 4> handles = {};
  std::vector<std::thread> threads;
  threads.emplace_back([&] { handles[0] = *acquireSlowly(); });
  gate_.waitForEntry();
  for (size_t i = 1; i < handles.size(); ++i)
    threads.emplace_back([&, i] { handles[i] = *acquireSlowly(i * kRailPage); });
  gate_.unlock();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(gate_.entered, 1);
  EXPECT_EQ(cache_.entries(), 1U);
  for (MemoryHandle* handle : handles) {
    EXPECT_EQ(handle->keys[0].remote(), handles[0]->keys[0].remote());
    cache_.release(handle);
  }
}

TEST_F(MemoryThreads, WhoWaitedForARegistrationThatFailsTriesByHimself) {
  gate_.failures = 1;
  std::array<bool, 2> taken = {};
  std::vector<std::thread> threads;
  for (bool& success : taken) {
    threads.emplace_back([&] {
      const auto handle = acquireSlowly();
      success = handle.ok();
      if (handle.ok()) cache_.release(*handle);
    });
  }
  gate_.waitForEntry();
  gate_.unlock();
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(taken[0], taken[1]);
  EXPECT_EQ(gate_.entered, 2);
  EXPECT_EQ(cache_.entries(), 0U);
}

TEST_F(MemoryRails, ManyThreadsAgreeOnTheReferences) {
  constexpr int kRounds = 500;
  MemoryCache cache({pd(0), pd(1)});
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&cache, t] {
      for (size_t i = 0; i < kRounds; ++i) {
        MemoryHandle* shared = *cache.acquire(addressOf(0), 4 * kRailPage, MemoryKind::kHost);
        MemoryHandle* part = *cache.acquire(addressOf(i % 4 * kRailPage), 100, MemoryKind::kHost);
        MemoryHandle* own = *cache.acquire(addressOf((8 + t) * kRailPage), kRailPage, MemoryKind::kHost);
        MemoryHandle* around =
            *cache.acquire(addressOf((8 + t / 2 * 2) * kRailPage), 2 * kRailPage, MemoryKind::kHost);
        for (MemoryHandle* handle : {shared, own, part, around}) cache.release(handle);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache.entries(), 0U);
}

}  // namespace
}  // namespace railwise::net
