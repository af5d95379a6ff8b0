// A flush of GPU memory is a read by the device, whatever way the memory was registered.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "loop_connection.h"
#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise::net {
namespace {

constexpr std::size_t kBytes = 8192;

TEST(GpuDirect, AFlushReadsADmaBufThroughEachRailThatWroteIt) {
  LoopConnection loop(kBytes, "count=2,gpudirect=on", 2);
  const int fd = memfd_create("railwise-test-gpu", 0);
  ASSERT_EQ(ftruncate(fd, kBytes), 0);
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const auto address = reinterpret_cast<uint64_t>(memory);
  MemoryHandle* buffer = *loop.device().memory().acquireDmaBuf(address, kBytes, 0, fd);
  close(fd);

  const ReceiveBuffer room = {address, 64, 0, buffer};
  Request* receive = nullptr;
  ASSERT_OK(loop.receiver().irecv({&room, 1}, false, &receive));
  std::memset(loop.at(0), 7, 64);
  Request* const send = loop.sendWhenReady(0, 64);
  ASSERT_TRUE(LoopConnection::finish(send) && LoopConnection::finish(receive));
  EXPECT_EQ(static_cast<char*>(memory)[63], 7);

  const softdev::Counters before = loop.counters();
  Request* flush = nullptr;
  ASSERT_OK(loop.receiver().iflush(address, *buffer, &flush));
  ASSERT_NE(flush, nullptr);
  ASSERT_TRUE(LoopConnection::finish(flush));
  EXPECT_EQ(loop.counters().reads - before.reads, 1U) << "64 bytes travel over one rail";
  loop.device().memory().release(buffer);
  munmap(memory, kBytes);
}

}  // namespace
}  // namespace railwise::net
