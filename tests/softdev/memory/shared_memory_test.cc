// Regions in shared mappings: peers map them, and copy without system calls.
#include "softdev/memory/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "softdev/forbid_call.h"
#include "softdev/memory/address_space.h"
#include "softdev/peer_process.h"
#include "softdev/queues/objects.h"
#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise::softdev::test {
namespace {

constexpr size_t kSharedBytes = 1 << 16;

TEST(Area, FollowsTheKernel) {
  Buffer file(kSharedBytes, Memory::kMemoryFile);
  Area area;
  ASSERT_TRUE(findArea(reinterpret_cast<uint64_t>(file.data()) + 5000, &area));
  EXPECT_TRUE(area.shared && area.readable && area.writable);
  EXPECT_NE(area.inode, 0U);
  Area described;
  ASSERT_TRUE(describeArea(reinterpret_cast<uint64_t>(file.data()), &described));
  EXPECT_EQ(described.begin, area.begin);
  EXPECT_EQ(described.end, area.end);
  EXPECT_EQ(described.inode, area.inode);
  EXPECT_EQ(described.device, area.device);
  EXPECT_EQ(described.offset, area.offset);
  EXPECT_HAS(described.name, "railwise-test");
  EXPECT_FALSE(findArea(64, &area));
  int local = 0;
  ASSERT_TRUE(findArea(reinterpret_cast<uint64_t>(&local), &area));
  EXPECT_FALSE(area.shared);
}

int lowestFreeDescriptor() {
  const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  close(fd);
  return fd;
}

// Ends the process: with 0 if all was found, and no file stayed open.
void findWithoutTheQuery() {
  (void)forbidCall(SYS_ioctl,
                   ENOTTY);  // as on a kernel that knows no query; where there are no filters it stays
  const int before = lowestFreeDescriptor();
  Buffer memory(kSharedBytes, Memory::kAnonymous);
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        Area area;
        if (!findArea(reinterpret_cast<uint64_t>(memory.data()) + 5000, &area) || area.shared) ++wrong;
      });
    }
  }
  releaseAddressSpace();
  if (lowestFreeDescriptor() != before) _exit(2);
  _exit(wrong.load() == 0 ? 0 : 1);
}

TEST(AreaDeathTest, ALackingQueryLeavesNoFileOpen) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process that has not asked yet
  EXPECT_EXIT(findWithoutTheQuery(), testing::ExitedWithCode(0), "");
}

TEST(Backing, OfOneSharedStretchOnly) {
  uint64_t offset = 0;
  Buffer file(kSharedBytes, Memory::kMemoryFile);
  const auto address = reinterpret_cast<uint64_t>(file.data());
  const std::shared_ptr<BackingFile> backing = findBacking(address + 5000, 100, true, &offset);
  ASSERT_NE(backing, nullptr);
  EXPECT_EQ(offset, 5000U);
  EXPECT_EQ(findBacking(address, kSharedBytes, true, &offset), backing);  // one descriptor for both
  ASSERT_EQ(mprotect(file.data() + kSharedBytes / 2, kSharedBytes / 2, PROT_READ), 0);
  EXPECT_EQ(findBacking(address, kSharedBytes, true, &offset), nullptr);
  EXPECT_EQ(findBacking(address, kSharedBytes, false, &offset), backing);  // two areas, one stretch
  Buffer memory(kSharedBytes, Memory::kAnonymous);
  EXPECT_EQ(findBacking(reinterpret_cast<uint64_t>(memory.data()), kSharedBytes, true, &offset), nullptr);
  // The half of a file that something else took the place of.
  ASSERT_NE(mmap(file.data(), kSharedBytes / 2, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            MAP_FAILED);
  EXPECT_EQ(findBacking(address, kSharedBytes, false, &offset), nullptr);
}

TEST(Backing, LooksAtTheAddressAnew) {
  uint64_t offset = 0;
  Buffer first(kSharedBytes, Memory::kMemoryFile);
  const auto address = reinterpret_cast<uint64_t>(first.data());
  const auto before = findBacking(address, kSharedBytes, true, &offset);
  ASSERT_NE(before, nullptr);
  const int fd = memfd_create("railwise-test-other", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, 2 * kSharedBytes), 0);
  ASSERT_NE(
      mmap(first.data(), kSharedBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, kSharedBytes),
      MAP_FAILED);
  const auto after = findBacking(address, kSharedBytes, true, &offset);
  ASSERT_NE(after, nullptr);
  EXPECT_NE(after->identity(), before->identity());
  EXPECT_EQ(offset, kSharedBytes);
  close(fd);
}

TEST(SharedMemory, MovesWithoutSystemCalls) {
  Processes two({}, {.memory = Memory::kMemoryFile});
  for (size_t i = 0; i < 64; ++i) *two.end.word(8 * i) = 100 + i;
  EXPECT_EQ(sendAndWait(two.end, {.length = 512, .remote_offset = 64}), IBV_WC_SUCCESS);
  for (size_t i = 0; i < 64; ++i) ASSERT_EQ(two.peer.word(64 + 8 * i), 100 + i);
  two.peer.setWord(4096, 7);
  ASSERT_EQ(two.end.send({.opcode = IBV_WR_RDMA_READ, .offset = 8192, .length = 8, .remote_offset = 4096}),
            0);
  EXPECT_EQ(two.end.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(*two.end.word(8192), 7U);
  ASSERT_EQ(two.peer.receive(3, 16384, 1024), 0);
  ASSERT_EQ(two.end.send({.opcode = IBV_WR_SEND, .length = 512}), 0);
  EXPECT_EQ(two.peer.wait().byte_len, 512U);
  EXPECT_EQ(two.end.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(two.peer.word(16384 + 504), 163U);
  ASSERT_EQ(two.peer.receive(4), 0);
  ASSERT_EQ(two.end.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .length = 13, .imm = 5}), 0);
  EXPECT_EQ(two.peer.wait().imm_data, 5U);
  EXPECT_EQ(two.end.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(counters(two.device).system_calls, 0U);
}

TEST(SharedMemory, TheSwitchTurnsItOff) {
  Processes two({}, {.memory = Memory::kMemoryFile}, "mover=vm");
  *two.end.word(0) = 5;
  EXPECT_EQ(sendAndWait(two.end, {.length = 8, .remote_offset = 64}), IBV_WC_SUCCESS);
  EXPECT_EQ(two.peer.word(64), 5U);
  EXPECT_EQ(counters(two.device).system_calls, 1U);
}

TEST(SharedMemory, OrderWithPrivateMemoryInOneChain) {
  Processes two({}, {.memory = Memory::kMemoryFile});
  PeerProcess other(two.device.fabric(), {});  // private
  Endpoint end(two.device);
  connectEnds(end, other);
  *end.word(0) = 6;
  EXPECT_EQ(sendAndWait(end, {.length = 8}), IBV_WC_SUCCESS);
  EXPECT_EQ(other.word(0), 6U);
  EXPECT_EQ(counters(two.device).system_calls, 1U);
}

TEST(SharedMemory, KilledPeer) {
  Processes two({}, {.memory = Memory::kMemoryFile});
  EXPECT_EQ(sendAndWait(two.end, {.length = 8}), IBV_WC_SUCCESS);
  two.peer.kill();
  ibv_wc wc{};
  // The memory stays, so only the look at the process tells.
  for (railwise::test::Patience patience; wc.status == IBV_WC_SUCCESS; patience.again()) {
    ASSERT_EQ(two.end.send({.length = 8}), 0);
    wc = two.end.wait();
  }
  EXPECT_EQ(wc.status, IBV_WC_RETRY_EXC_ERR);
}

TEST(SharedMemory, ReadOnlyRegionsAreMappedReadOnly) {
  const int rights = IBV_ACCESS_REMOTE_READ;
  Processes two({}, {.memory = Memory::kMemoryFile, .mr_access = rights});
  two.peer.setWord(8, 9);
  EXPECT_EQ(sendAndWait(two.end, {.opcode = IBV_WR_RDMA_READ, .length = 8, .remote_offset = 8}),
            IBV_WC_SUCCESS);
  EXPECT_EQ(*two.end.word(0), 9U);
  EXPECT_EQ(counters(two.device).system_calls, 0U);
  EXPECT_EQ(sendAndWait(two.end, {.length = 8}), IBV_WC_REM_ACCESS_ERR);
}

TEST(SharedMemory, SparseFilesOfALimitedFileSystemAreNotMapped) {
  // A page that cannot be had would end the poster, not the owner.
  char path[] = "/dev/shm/railwise-test-XXXXXX";
  const int fd = mkstemp(path);
  if (fd < 0) GTEST_SKIP() << "no /dev/shm";
  unlink(path);
  ASSERT_EQ(ftruncate(fd, kSharedBytes), 0);
  void* memory = mmap(nullptr, kSharedBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Endpoint end;
  ibv_mr* mr = regMr(end.pd, memory, kSharedBytes, end.options.mr_access);
  ASSERT_NE(mr, nullptr);
  Fabric& fabric = *as<Context>(end.context).fabric;
  PeerRegions regions;
  auto* at = static_cast<std::byte*>(memory);
  struct statvfs system = {};
  ASSERT_EQ(fstatvfs(fd, &system), 0);
  if (system.f_blocks != 0) EXPECT_EQ(regions.find(fabric, fabric.self.token, mr->rkey, at, true), nullptr);
  std::memset(memory, 1, kSharedBytes);
  regions.clear();
  std::byte* mapped = regions.find(fabric, fabric.self.token, mr->rkey, at + 100, true);
  ASSERT_NE(mapped, nullptr);
  mapped[0] = std::byte{77};
  EXPECT_EQ(at[100], std::byte{77});
  deregMr(mr);
  regions.sweep(*fabric.segment);
  munmap(memory, kSharedBytes);
  close(fd);
}

}  // namespace
}  // namespace railwise::softdev::test
