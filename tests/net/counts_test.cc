// What a message costs, counted exactly by the software device: the numbers that carry over to hardware.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "net/net.h"
#include "softdev/softdev.h"

namespace railwise::net {
namespace {

// A connection from this process to itself.
class CountsTest : public testing::Test {
 protected:
  CountsTest() : buffer_(1 << 20) {
    setenv("RAILWISE_DEVICE", ("software:fabric=test" + std::to_string(getpid())).c_str(), 1);
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    net_ = *Net::acquire();
    context_ = std::make_unique<Context>(*net_, -1);
    const Device& device = net_->devices()[0];
    char handle[kHandleBytes];
    Listener* listener = *context_->listen(device, handle);
    while (send_ == nullptr || receive_ == nullptr) {
      if (send_ == nullptr) send_ = *context_->connect(device, handle, -1);
      if (receive_ == nullptr) receive_ = *Context::accept(*listener);
    }
    memory_ = *send_->memory().acquire(address(0), buffer_.size(), MemoryKind::kHost);
  }
  ~CountsTest() override {
    send_->memory().release(memory_);
    context_.reset();
    Net::release();
  }

  uint64_t address(size_t offset) const { return reinterpret_cast<uint64_t>(buffer_.data()) + offset; }

  void finish(Request* request) {
    for (bool done = false; !done;) {
      const Result<bool> tested = request->connection->test(*request, nullptr);
      ASSERT_TRUE(tested.ok());
      done = *tested;
    }
  }

  // One group of `n` messages of `bytes` each, to completion.
  void exchange(int n, size_t bytes) {
    std::vector<ReceiveBuffer> buffers(static_cast<size_t>(n), {address(bytes), bytes, 0, memory_});
    Request* receive = nullptr;
    ASSERT_TRUE(receive_->irecv(buffers, &receive).ok());
    std::vector<Request*> sends;
    for (int i = 0; i < n; ++i) {
      Request* send = nullptr;
      ASSERT_TRUE(send_->isend(address(0), bytes, 0, memory_, &send).ok());
      ASSERT_NE(send, nullptr);
      sends.push_back(send);
    }
    for (Request* send : sends) finish(send);
    finish(receive);
  }

  softdev::Counters counters() const { return softdev::counters(net_->devices()[0].hca->context()); }

  std::vector<char> buffer_;
  Net* net_ = nullptr;
  std::unique_ptr<Context> context_;
  SendConnection* send_ = nullptr;
  ReceiveConnection* receive_ = nullptr;
  MemoryHandle* memory_ = nullptr;
};

constexpr uint64_t kMessages = 320;  // a multiple of every batch, so that nothing is left over

TEST_F(CountsTest, AMessageIsOneWriteAndOneClearToSend) {
  const softdev::Counters before = counters();
  for (uint64_t i = 0; i < kMessages; ++i) exchange(1, 4096);
  const softdev::Counters after = counters();
  EXPECT_EQ(after.writes_with_imm - before.writes_with_imm, kMessages);
  EXPECT_EQ(after.writes - before.writes, kMessages);
  EXPECT_EQ(after.post_send_calls - before.post_send_calls, 2 * kMessages);
  EXPECT_EQ(after.receives - before.receives, kMessages);
  // A completion at each end, and one for every 16 clear-to-sends.
  EXPECT_EQ(after.completions - before.completions, 2 * kMessages + kMessages / 16);
}

TEST_F(CountsTest, AGroupOfEightIsTwoPostsAndTenWorkRequests) {
  const softdev::Counters before = counters();
  for (uint64_t i = 0; i < kMessages; ++i) exchange(8, 64);
  const softdev::Counters after = counters();
  EXPECT_EQ(after.post_send_calls - before.post_send_calls, 2 * kMessages);
  EXPECT_EQ(after.writes - before.writes, 9 * kMessages);
  EXPECT_EQ(after.writes_with_imm - before.writes_with_imm, kMessages);
  EXPECT_EQ(after.receives - before.receives, kMessages);
  EXPECT_EQ(after.completions - before.completions, 2 * kMessages + kMessages / 16);
}

TEST_F(CountsTest, ClearToSendTravelsInline) {
  const softdev::Counters before = counters();
  exchange(1, 4096);
  EXPECT_EQ(counters().inline_sends - before.inline_sends, 1U);
}

TEST_F(CountsTest, AFlushIsOneReadOfTheDevice) {
  const softdev::Counters before = counters();
  Request* flush = nullptr;
  ASSERT_TRUE(receive_->iflush(address(0), *memory_, &flush).ok());
  finish(flush);
  const softdev::Counters after = counters();
  EXPECT_EQ(after.reads - before.reads, 1U);
  EXPECT_EQ(after.bytes - before.bytes, 1U);
}

TEST_F(CountsTest, WithinOneProcessNoSystemCallMovesData) {
  const softdev::Counters before = counters();
  exchange(1, 1 << 18);
  EXPECT_EQ(counters().system_calls, before.system_calls);
}

}  // namespace
}  // namespace railwise::net
