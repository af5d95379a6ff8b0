// Adversarial placement: right bytes, in an order that only the completion makes safe.
#include "softdev/engine/placement.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "softdev/endpoint.h"
#include "softdev/peer_process.h"

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

std::vector<std::byte> joined(const iovec* list, size_t count) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < count; ++i) {
    const auto* begin = static_cast<const std::byte*>(list[i].iov_base);
    bytes.insert(bytes.end(), begin, begin + list[i].iov_len);
  }
  return bytes;
}

// Where a copy of the kernel's is not in order, none holds the last word of a block and what stands before
// it.
TEST(Placement, CutsForTheKernelEndBeforeLastWords) {
  Random random(9);
  std::vector<std::byte> from(20000);
  std::vector<std::byte> to(24000);
  for (auto& byte : from) byte = static_cast<std::byte>(random.next());
  for (int round = 0; round < 200; ++round) {
    iovec local[3];
    uint64_t total = 0;
    for (iovec& piece : local) {
      piece = {from.data() + total + random.below(50), 1 + random.below(3000)};
      total += piece.iov_len;
    }
    const uint64_t first = 1 + random.below(total - 1);
    iovec remote[2] = {{to.data() + random.below(200), first}, {to.data() + 12000, total - first}};
    std::vector<iovec> cut;
    std::vector<iovec> remote_cut;
    cutAtLastWords(local, 3, remote, 2, &cut, &remote_cut);
    ASSERT_EQ(joined(cut.data(), cut.size()), joined(local, 3));
    ASSERT_EQ(remote_cut.size(), cut.size());
    uint64_t at = 0;
    for (const iovec& piece : cut) {
      const uint64_t past = at < first ? at : at - first;
      const uint64_t begin = reinterpret_cast<uint64_t>(remote[at < first ? 0 : 1].iov_base) + past;
      ASSERT_TRUE(at >= first || at + piece.iov_len <= first);
      const iovec& theirs = remote_cut[static_cast<size_t>(&piece - cut.data())];
      ASSERT_EQ(reinterpret_cast<uint64_t>(theirs.iov_base), begin);
      ASSERT_EQ(theirs.iov_len, piece.iov_len);
      const uint64_t end = begin + piece.iov_len;
      const uint64_t last_word = end / 128 * 128 - 8;  // of the last block that ends in the piece
      ASSERT_TRUE(end / 128 == begin / 128 || begin >= last_word) << begin % 128 << " " << end % 128;
      ASSERT_TRUE(end % 128 <= 120 || begin % 128 >= 120) << begin % 128 << " " << end % 128;
      at += piece.iov_len;
    }
    const std::vector<std::byte> sent = joined(local, 3);
    const std::vector<iovec> whole(remote, remote + 2);
    for (std::vector<iovec> targets : {whole, remote_cut}) {
      std::fill(to.begin(), to.end(), std::byte{});
      std::vector<iovec> sources = cut;
      iovec* ours = sources.data();
      iovec* theirs = targets.data();
      int ours_count = static_cast<int>(sources.size());
      int theirs_count = static_cast<int>(targets.size());
      int error = 0;
      uint64_t calls = 0;
      ASSERT_EQ(transfer(getpid(), true, ours, ours_count, theirs, theirs_count, &error, &calls), total);
      ASSERT_EQ(joined(whole.data(), 2), sent);
    }
  }
}

// More pieces than one call of the kernel takes.
TEST(Placement, TransfersInMoreThanAThousandPieces) {
  std::vector<std::byte> from(1 << 19);
  std::vector<std::byte> to(from.size());
  Random random(3);
  for (auto& byte : from) byte = static_cast<std::byte>(random.next());
  iovec local{from.data(), from.size()};
  iovec target{to.data(), to.size()};
  std::vector<iovec> cut;
  cutAtLastWords(&local, 1, &target, 1, &cut);
  iovec* ours = cut.data();
  iovec* theirs = &target;
  int ours_count = static_cast<int>(cut.size());
  int theirs_count = 1;
  int error = 0;
  uint64_t calls = 0;
  ASSERT_GT(ours_count, 4000);
  EXPECT_EQ(transfer(getpid(), true, ours, ours_count, theirs, theirs_count, &error, &calls), from.size());
  EXPECT_EQ(error, 0);
  EXPECT_EQ(calls, 5U);
  EXPECT_EQ(from, to);
}

TEST(Placement, CompletionTellsOfAllBytes) {
  Pair pair("adversarial=on,engine=on");
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
// Looks at `blocks` of them while they are written, in rounds whose words all have the round's number.
class Watcher {
 public:
  Watcher(const uint64_t* words, uint64_t blocks)
      : words_(words), blocks_(blocks), thread_([this] { run(); }) {}
  ~Watcher() {
    stop_.store(true);
    thread_.join();
  }
  // Blocks that were seen with an old word before a new last one.
  uint64_t stop() {
    stop_.store(true);
    return broken_.load();
  }

 private:
  void run() {
    while (!stop_.load()) {
      looks_.store(true);
      for (uint64_t block = 0; block < blocks_; ++block) {
        const uint64_t* words = words_ + 16 * block;
        const uint64_t last = __atomic_load_n(words + 15, __ATOMIC_ACQUIRE);
        for (int i = 0; i < 15; ++i) {
          if (__atomic_load_n(words + i, __ATOMIC_ACQUIRE) < last) broken_.fetch_add(1);
        }
      }
    }
  }

  const uint64_t* words_;
  uint64_t blocks_;
  std::atomic<bool> looks_{false};
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> broken_{0};
  std::thread thread_;
};

constexpr uint64_t kBlocks = 16;
constexpr uint32_t kBytes = kBlocks * 128;
// Copies of libc are seldom in order where the source lies otherwise in its lines than the target.
constexpr uint64_t kSource = 8;

// Offset of the first whole block.
uint64_t blockOffset(const Endpoint& end) { return (128 - end.address().memory % 128) % 128; }

class PlacementHere : public testing::TestWithParam<const char*> {};

TEST_P(PlacementHere, LastWordOfABlockComesLast) {
  Pair pair(GetParam());
  const bool slow = std::string(GetParam()).find("engine") != std::string::npos;
  const uint64_t rounds = slow ? 20000 : 100000;
  const uint64_t aligned = blockOffset(pair.b);
  Watcher watcher(pair.b.word(aligned), kBlocks);
  EXPECT_EQ(pair.a.sendRounds({.offset = kSource, .length = kBytes, .remote_offset = aligned}, rounds), 0);
  EXPECT_EQ(watcher.stop(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Modes, PlacementHere,
                         testing::Values("", "engine=on", "pacing=on", "adversarial=on,engine=on"));

// The writer is another process; memory that it maps, and memory that the kernel reaches for it.
struct Way {
  const char* devices;
  Memory memory;
  uint64_t rounds;
};

class PlacementThere : public testing::TestWithParam<Way> {};

TEST_P(PlacementThere, LastWordOfABlockComesLast) {
  Options options;
  options.memory = GetParam().memory;
  Processes both(options, options, GetParam().devices);
  const uint64_t aligned = blockOffset(both.end);
  Watcher watcher(both.end.word(aligned), kBlocks);
  EXPECT_EQ(both.peer.sendRounds({.offset = kSource, .length = kBytes, .remote_offset = aligned},
                                 GetParam().rounds),
            0);
  EXPECT_EQ(watcher.stop(), 0U);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, PlacementThere,
    testing::Values(Way{"", Memory::kMemoryFile, 100000}, Way{"engine=on", Memory::kSharedAnonymous, 20000},
                    Way{"adversarial=on", Memory::kMemoryFile, 20000},
                    Way{"mover=remap", Memory::kAnonymous, 100000}, Way{"mover=vm", Memory::kHeap, 20000},
                    Way{"mover=vm,adversarial=on", Memory::kHeap, 5000},
                    Way{"mover=mem", Memory::kHeap, 20000}, Way{"mover=agent", Memory::kHeap, 1000}),
    [](const auto& each) { return "Way" + std::to_string(each.index); });

}  // namespace
}  // namespace railwise::softdev::test
