// mover=remap: private memory moved into a memory file under the program's feet.
#include "softdev/memory/remap.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "softdev/memory/address_space.h"
#include "softdev/memory/shared_memory.h"
#include "softdev/peer_process.h"
#include "tests/wait.h"

namespace railwise::softdev::test {
namespace {

constexpr size_t kBytes = 1 << 16;

uint64_t addressOf(Buffer& buffer) { return reinterpret_cast<uint64_t>(buffer.data()); }

#define REQUIRE_MOVED(buffer)                            \
  if (!remapPrivate(addressOf(buffer), (buffer).size())) \
  GTEST_SKIP() << "no userfaultfd with write protection on this machine"

TEST(Remap, KeepsTheBytesAndMakesThemShared) {
  Buffer buffer(kBytes, Memory::kAnonymous);
  for (size_t i = 0; i < kBytes; i += 8192)
    buffer[i] = static_cast<std::byte>(i / 8192 + 1);  // some pages untouched
  REQUIRE_MOVED(buffer);
  for (size_t i = 0; i < kBytes; ++i)
    ASSERT_EQ(buffer[i], static_cast<std::byte>(i % 8192 == 0 ? i / 8192 + 1 : 0)) << i;
  uint64_t offset = 1;
  const auto backing = findBacking(addressOf(buffer) + 4096, 100, true, &offset);
  ASSERT_NE(backing, nullptr);
  EXPECT_EQ(offset, 4096U);
  EXPECT_FALSE(remapPrivate(addressOf(buffer), kBytes));  // it is moved already
}

// What was there. Unseen by ThreadSanitizer, to which pages that are swapped under a thread are a race.
__attribute__((no_sanitize("thread"))) uint64_t replace(volatile uint64_t& word, uint64_t value) {
  const uint64_t before = word;
  word = value;
  return before;
}

TEST(Remap, LosesNoWriteOfAnotherThread) {
  constexpr int kRounds = 50;
  for (int round = 0; round < kRounds; ++round) {
    Buffer buffer(kBytes, Memory::kAnonymous);
    std::atomic<bool> stop{false};
    std::atomic<uint64_t> turns{0};
    auto* words = reinterpret_cast<uint64_t*>(buffer.data());
    constexpr size_t kStride = 64;  // one word in every line
    std::thread hammer([&] {
      // Reads what it wrote in the turn before: a lost write shows at once.
      for (uint64_t turn = 1; !stop.load(std::memory_order_relaxed); ++turn) {
        for (size_t i = 0; i < kBytes / 8; i += kStride) {
          if (replace(words[i], turn) == turn - 1) continue;
          ADD_FAILURE() << "word " << i << " was not " << turn - 1 << " in turn " << turn;
          return;
        }
        turns.store(turn, std::memory_order_release);
      }
    });
    railwise::test::waitUntil([&] { return turns.load(std::memory_order_acquire) >= 3; });
    const bool moved = remapPrivate(addressOf(buffer), kBytes);
    const uint64_t seen = turns.load(std::memory_order_acquire);
    railwise::test::waitUntil(
        [&] { return turns.load(std::memory_order_acquire) >= seen + 3 || testing::Test::HasFailure(); });
    stop.store(true);
    hammer.join();
    if (!moved) GTEST_SKIP() << "no userfaultfd with write protection on this machine";
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

TEST(Remap, LeavesOtherMemoryAlone) {
  char on_stack[64] = {};
  EXPECT_FALSE(remapPrivate(reinterpret_cast<uint64_t>(on_stack), sizeof on_stack));
  Buffer file(kBytes, Memory::kMemoryFile);
  EXPECT_FALSE(remapPrivate(addressOf(file), kBytes));
  Buffer fixed(kBytes, Memory::kAnonymous);
  ASSERT_EQ(mprotect(fixed.data() + 4096, 4096, PROT_READ), 0);
  EXPECT_FALSE(remapPrivate(addressOf(fixed), kBytes));
  Area area;
  ASSERT_TRUE(findArea(addressOf(fixed), &area));
  EXPECT_FALSE(area.shared);
}

TEST(Remap, PeersWriteWithoutSystemCalls) {
  Buffer probe(kBytes, Memory::kAnonymous);
  REQUIRE_MOVED(probe);
  OpenDevice device("mover=remap");
  PeerProcess peer(device.fabric(), {.memory = Memory::kAnonymous}, "mover=remap");
  Endpoint end(device, {.memory = Memory::kAnonymous});
  connectEnds(end, peer);
  *end.word(0) = 77;
  EXPECT_EQ(sendAndWait(end, {.length = 8, .remote_offset = 64}), IBV_WC_SUCCESS);
  EXPECT_EQ(peer.word(64), 77U);
  EXPECT_EQ(counters(device).system_calls, 0U);
  // A second registration of the same pages, and one after the first has gone.
  ibv_mr* second = regMr(end.pd, end.buffer.data() + 100, 5000, end.options.mr_access);
  ASSERT_NE(second, nullptr);
  deregMr(second);
  deregMr(end.mr);
  end.mr = regMr(end.pd, end.buffer.data(), end.buffer.size(), end.options.mr_access);
  EXPECT_EQ(*end.word(0), 77U);
  uint64_t offset = 0;
  EXPECT_NE(findBacking(addressOf(end.buffer), kBytes, true, &offset), nullptr);
}

}  // namespace
}  // namespace railwise::softdev::test
