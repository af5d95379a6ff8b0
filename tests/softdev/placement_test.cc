// Adversarial placement: right bytes, in an order that only the completion makes safe.
#include "softdev/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "softdev/endpoint.h"

namespace railwise::softdev::test {
namespace {

Pieces split(std::vector<std::byte>& memory, size_t offset, const std::vector<uint64_t>& lengths) {
  Pieces pieces;
  for (const uint64_t length : lengths) {
    pieces.list[pieces.count++] = {memory.data() + offset, length};
    offset += length + 3;
  }
  return pieces;
}

TEST(Placement, AllBytesArriveWhateverThePieces) {
  Random random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::byte> from(20000);
    std::vector<std::byte> to(20000, std::byte{0});
    for (auto& byte : from) byte = static_cast<std::byte>(random.next());
    std::vector<uint64_t> cuts_from;
    std::vector<uint64_t> cuts_to;
    uint64_t total = 0;
    for (int i = 0; i < 4; ++i) total += cuts_from.emplace_back(1 + random.below(2000));
    uint64_t rest = total;
    while (cuts_to.size() < 5 && rest > 0) {
      const uint64_t length = cuts_to.size() == 4 ? rest : 1 + random.below(rest);
      cuts_to.push_back(length);
      rest -= length;
    }
    const Pieces source = split(from, random.below(200), cuts_from);
    const Pieces target = split(to, random.below(200), cuts_to);
    placeHere(target, source, random);
    std::vector<std::byte> sent;
    std::vector<std::byte> arrived;
    for (int i = 0; i < source.count; ++i)
      sent.insert(sent.end(), source.list[i].address, source.list[i].address + source.list[i].length);
    for (int i = 0; i < target.count; ++i)
      arrived.insert(arrived.end(), target.list[i].address, target.list[i].address + target.list[i].length);
    ASSERT_EQ(sent, arrived);
    const auto touched = std::count_if(to.begin(), to.end(), [](std::byte b) { return b != std::byte{0}; });
    ASSERT_LE(touched, static_cast<std::ptrdiff_t>(total));
  }
}

TEST(Placement, CompletionTellsOfAllBytes) {
  const OpenDevice device("adversarial=on,engine=on");
  Pair pair(device);
  for (uint64_t round = 1; round <= 200; ++round) {
    std::memset(pair.a.buffer.data(), static_cast<int>(round), 20000);
    ASSERT_EQ(pair.b.receive(1), 0);
    ASSERT_EQ(pair.a.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .offset = 8, .length = 16000}), 0);
    ASSERT_EQ(pair.b.wait().status, IBV_WC_SUCCESS);
    ASSERT_EQ(std::memcmp(pair.a.buffer.data() + 8, pair.b.buffer.data(), 16000), 0);
    ASSERT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  }
}

// What NCCL's LL128 needs: in an aligned block of 128 bytes, whoever sees the last word sees the others.
TEST(Placement, LastWordOfABlockComesLast) {
  const OpenDevice device("adversarial=on,engine=on");
  Options options;
  options.buffer_bytes = 1 << 16;
  Pair pair(device, options);
  const auto base = reinterpret_cast<uint64_t>(pair.b.buffer.data());
  const uint64_t aligned = (128 - base % 128) % 128;
  constexpr uint64_t kBlocks = 64;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> broken{0};
  std::thread watcher([&] {
    while (!stop.load()) {
      for (uint64_t block = 0; block < kBlocks; ++block) {
        const uint64_t* words = pair.b.word(aligned + 128 * block);
        const uint64_t last = __atomic_load_n(words + 15, __ATOMIC_ACQUIRE);
        for (int i = 0; i < 15; ++i) {
          if (__atomic_load_n(words + i, __ATOMIC_ACQUIRE) < last) broken.fetch_add(1);
        }
      }
    }
  });
  for (uint64_t round = 1; round <= 300; ++round) {
    for (uint64_t i = 0; i < kBlocks * 16; ++i) *pair.a.word(8 * i) = round;
    ASSERT_EQ(pair.a.send({.length = kBlocks * 128, .remote_offset = aligned}), 0);
    ASSERT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  }
  stop.store(true);
  watcher.join();
  EXPECT_EQ(broken.load(), 0U);
}

}  // namespace
}  // namespace railwise::softdev::test
