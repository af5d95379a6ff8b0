#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "softdev/endpoint.h"

namespace railwise::softdev::test {
namespace {

TEST(MemoryRegion, RefusesWhatCannotBe) {
  const Endpoint end;
  char memory[64];
  const struct {
    void* address;
    size_t length;
    int access;
    int error;
  } cases[] = {
      {memory, 0, 0, EINVAL},
      {memory, 64, IBV_ACCESS_REMOTE_WRITE, EINVAL},
      {memory, 64, IBV_ACCESS_ON_DEMAND, EOPNOTSUPP},
      {memory, SIZE_MAX, 0, EINVAL},
      {nullptr, 64, 0, EFAULT},
  };
  for (const auto& c : cases) {
    errno = 0;
    EXPECT_EQ(regMr(end.pd, c.address, c.length, c.access), nullptr);
    EXPECT_EQ(errno, c.error);
  }
  EXPECT_EQ(regMrIova2(nullptr, memory, 64, 0, 0), nullptr);
}

TEST(MemoryRegion, RefusesAHalfMappedRange) {
  const Endpoint end;
  constexpr size_t kPage = 4096;
  void* memory = mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(munmap(static_cast<char*>(memory) + kPage, kPage), 0);
  EXPECT_EQ(regMr(end.pd, memory, 2 * kPage, 0), nullptr);
  EXPECT_EQ(errno, EFAULT);
  ibv_mr* half = regMr(end.pd, memory, kPage, 0);
  EXPECT_NE(half, nullptr);
  EXPECT_EQ(deregMr(half), 0);
  munmap(memory, kPage);
}

TEST(MemoryRegion, KeysChangeWithEachRegistration) {
  const Endpoint end;
  char memory[64];
  ibv_mr* first = regMr(end.pd, memory, sizeof memory, 0);
  const uint32_t key = first->rkey;
  EXPECT_NE(key, end.mr->rkey);
  ASSERT_EQ(deregMr(first), 0);
  ibv_mr* second = regMr(end.pd, memory, sizeof memory, 0);
  EXPECT_NE(second->rkey, key);
  EXPECT_EQ(deregMr(second), 0);
}

TEST(MemoryRegion, IovaStandsForTheAddress) {
  Pair pair;
  uint64_t target = 0;
  constexpr uint64_t kIova = 0x1000;
  ibv_mr* mr =
      regMrIova2(pair.b.pd, &target, sizeof target, kIova, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  ASSERT_NE(mr, nullptr);
  *pair.a.word(0) = 77;
  ibv_sge sge;
  ibv_send_wr wr;
  ibv_send_wr* bad = nullptr;
  pair.a.fill({.length = 8}, &wr, &sge);
  wr.wr.rdma.remote_addr = kIova;
  wr.wr.rdma.rkey = mr->rkey;
  ASSERT_EQ(ibv_post_send(pair.a.qp, &wr, &bad), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(target, 77U);
  EXPECT_EQ(deregMr(mr), 0);
}

TEST(MemoryRegion, PdWithRegionsIsBusy) {
  const OpenDevice device;
  ibv_pd* pd = allocPd(device);
  char memory[8];
  ibv_mr* mr = regMr(pd, memory, sizeof memory, 0);
  EXPECT_EQ(deallocPd(pd), EBUSY);
  EXPECT_EQ(deregMr(mr), 0);
  EXPECT_EQ(deallocPd(pd), 0);
}

TEST(MemoryRegion, MayBeRelaxedOrdered) {
  const Endpoint end;
  char memory[8];
  ibv_mr* mr = regMr(end.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(deregMr(mr), 0);
}

TEST(MemoryRegion, ReregistrationChangesAccessUnderTheSameKey) {
  Pair pair;
  const uint32_t key = pair.b.mr->rkey;
  EXPECT_EQ(sendAndWait(pair.a, {.length = 8}), IBV_WC_SUCCESS);
  ASSERT_EQ(reregMr(pair.b.mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE), 0);
  EXPECT_EQ(pair.b.mr->rkey, key);
  EXPECT_EQ(sendAndWait(pair.a, {.length = 8}), IBV_WC_REM_ACCESS_ERR);
}

TEST(MemoryRegion, ReregistrationMovesToOtherMemory) {
  Pair pair;
  std::vector<std::byte> other(pair.b.buffer.size(), std::byte{1});
  ASSERT_EQ(reregMr(pair.b.mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, other.data(), other.size(), 0), 0);
  EXPECT_EQ(pair.b.mr->addr, other.data());
  EXPECT_EQ(sendAndWait(pair.a, {.length = 8}), IBV_WC_REM_ACCESS_ERR);  // the old place
}

TEST(MemoryRegion, ReregistrationMovesToAnotherPd) {
  const OpenDevice device;
  Pair pair(device);
  ibv_pd* own = pair.b.mr->pd;
  ibv_pd* other = allocPd(device);
  ASSERT_EQ(reregMr(pair.b.mr, IBV_REREG_MR_CHANGE_PD, other, nullptr, 0, 0), 0);
  EXPECT_EQ(deallocPd(other), EBUSY);
  EXPECT_EQ(sendAndWait(pair.a, {.length = 8}), IBV_WC_REM_ACCESS_ERR);
  ASSERT_EQ(reregMr(pair.b.mr, IBV_REREG_MR_CHANGE_PD, own, nullptr, 0, 0), 0);
  EXPECT_EQ(deallocPd(other), 0);
}

TEST(MemoryRegion, ReregistrationRefusesWhatCannotBe) {
  const Endpoint end;
  constexpr int kMove = IBV_REREG_MR_CHANGE_TRANSLATION;
  EXPECT_EQ(reregMr(end.mr, 1 << 8, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(reregMr(end.mr, kMove, nullptr, nullptr, 64, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(reregMr(end.mr, IBV_REREG_MR_CHANGE_PD, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(reregMr(end.mr, 0, nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(reregMr(end.mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE),
            IBV_REREG_MR_ERR_CMD);
  EXPECT_EQ(reregMr(end.mr, 0, nullptr, nullptr, 0, 0), 0);
}

TEST(MemoryRegion, OfADmaBuf) {
  Pair pair;
  const int fd = memfd_create("test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, 16384), 0);
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  constexpr uint64_t kIova = 0x70000000;
  ibv_mr* mr = regDmabufMr(pair.b.pd, 4100, 4096, kIova, fd, kAccess);
  ASSERT_NE(mr, nullptr);
  *pair.a.word(0) = 4711;
  pair.a.peer.memory = kIova;
  pair.a.peer.rkey = mr->rkey;
  EXPECT_EQ(sendAndWait(pair.a, {.length = 8, .remote_offset = 4}), IBV_WC_SUCCESS);
  uint64_t word = 0;
  EXPECT_EQ(pread(fd, &word, sizeof word, 4104), 8);
  EXPECT_EQ(word, 4711U);
  EXPECT_EQ(deregMr(mr), 0);
  EXPECT_EQ(regDmabufMr(pair.b.pd, 16000, 4096, kIova, fd, kAccess), nullptr);  // beyond the end
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(regDmabufMr(pair.b.pd, 0, 4096, kIova, fd, IBV_ACCESS_REMOTE_WRITE), nullptr);
  EXPECT_EQ(errno, EINVAL);
  close(fd);
  EXPECT_EQ(regDmabufMr(pair.b.pd, 0, 0, 0, -1, 0), nullptr);
  EXPECT_EQ(errno, EBADF);
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  EXPECT_EQ(regDmabufMr(pair.b.pd, 0, 4096, 0, pipes[0], kAccess), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  close(pipes[0]);
  close(pipes[1]);
}

TEST(MemoryRegion, OfADmaBufThatBeginsAtItsFilesPosition) {
  Pair pair;
  const int fd = memfd_create("test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, 16384), 0);
  ASSERT_EQ(lseek(fd, 8192, SEEK_SET), 8192);
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  constexpr uint64_t kIova = 0x70000000;
  ibv_mr* mr = regDmabufMr(pair.b.pd, 0, 4096, kIova, fd, kAccess);
  ASSERT_NE(mr, nullptr);
  *pair.a.word(0) = 4711;
  pair.a.peer.memory = kIova;
  pair.a.peer.rkey = mr->rkey;
  EXPECT_EQ(sendAndWait(pair.a, {.length = 8, .remote_offset = 16}), IBV_WC_SUCCESS);
  uint64_t word = 0;
  EXPECT_EQ(pread(fd, &word, sizeof word, 8192 + 16), 8);
  EXPECT_EQ(word, 4711U);
  EXPECT_EQ(deregMr(mr), 0);
  EXPECT_EQ(regDmabufMr(pair.b.pd, 0, 12288, kIova, fd, kAccess), nullptr);  // beyond the end
  close(fd);
}

TEST(MemoryRegion, OptionalAccessFlagsAreNotJudged) {
  const Endpoint end;
  std::vector<std::byte> memory(64);
  ibv_mr* mr = regMr(end.pd, memory.data(), memory.size(),
                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING | 1 << 28);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(deregMr(mr), 0);
  EXPECT_EQ(regMr(end.pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND),
            nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(regMrIova2(nullptr, memory.data(), memory.size(), 0, 0), nullptr);
}

}  // namespace
}  // namespace railwise::softdev::test
