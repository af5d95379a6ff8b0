// A peer may write into the sender's ring at any time, also into a clear-to-send that the sender has seen
// already, and whose group is half filled. The sender takes the number of messages once, and hands everything
// else to its NIC, so the peer harms nobody but its own connection.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "loop_connection.h"
#include "net/protocol/wire.h"
#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise::net {
namespace {

constexpr std::size_t kBytes = 1 << 20;
constexpr std::size_t kHalfOfThem = kBytes / 2;
constexpr std::size_t kApart = 100'000;

using Post = int (*)(ibv_qp*, ibv_send_wr*, ibv_send_wr**);
Post post_of_device = nullptr;
char* ring_entries = nullptr;  // where the receiver has written its last clear-to-send

int postAndWatch(ibv_qp* qp, ibv_send_wr* work, ibv_send_wr** bad) {
  for (const ibv_send_wr* at = work; at != nullptr; at = at->next) {
    const bool clear_to_send = at->opcode == IBV_WR_RDMA_WRITE && at->num_sge == 1 &&
                               at->sg_list[0].length == 2 * sizeof(ClearToSend) - kUnwrittenBytes;
    // The peer's device is in this process.
    if (clear_to_send)
      ring_entries = reinterpret_cast<char*>(at->wr.rdma.remote_addr) - kUnwrittenBytes;  // NOLINT
  }
  return post_of_device(qp, work, bad);
}

struct Rewriting {
  const char* name;
  std::function<void(std::array<ClearToSend, 2>& entries)> change;
  bool ends;  // the connection
};

class RewrittenClearToSend : public testing::TestWithParam<std::tuple<Rewriting, std::size_t>> {
 protected:
  RewrittenClearToSend() : loop_(kBytes, "count=1") {
    Post& post = loop_.device().rails().front().hca->context()->ops.post_send;
    post_of_device = post;
    post = postAndWatch;
    ring_entries = nullptr;
  }

  std::size_t size() const { return std::get<1>(GetParam()); }
  char* from(int tag) { return loop_.at(static_cast<std::size_t>(tag) * kApart); }
  char* to(int tag) { return loop_.at(kHalfOfThem + static_cast<std::size_t>(tag) * kApart); }

  Request* receiveTwo() {
    Request* request = nullptr;
    std::vector<ReceiveBuffer> buffers;
    for (int tag = 0; tag < 2; ++tag) {
      std::memset(from(tag), 'a' + tag, kApart);
      std::memset(to(tag), 0, kApart);
      buffers.push_back({reinterpret_cast<uint64_t>(to(tag)), kApart, tag, loop_.memory(), nullptr});
    }
    EXPECT_OK(loop_.receiver().irecv(buffers, false, &request));
    return request;
  }
  Status send(int tag, Request** request) {
    return loop_.sender().isend(reinterpret_cast<uint64_t>(from(tag)), size(), tag, loop_.memory(), nullptr,
                                request);
  }
  // Tests the requests until all are done (true) or one end fails (false).
  bool finish(std::vector<Request*> requests) {
    for (test::Patience patience; !requests.empty(); patience.again()) {
      for (std::size_t i = 0; i < requests.size();) {
        bool done = false;
        int sizes[kMaxReceives];
        if (!requests[i]->connection->test(*requests[i], &done, sizes).ok()) return false;
        if (done) requests.erase(requests.begin() + static_cast<std::ptrdiff_t>(i));
        else ++i;
      }
    }
    return true;
  }
  void rewrite() {
    std::array<ClearToSend, 2> entries;
    std::memcpy(entries.data(), ring_entries, sizeof entries);
    std::get<0>(GetParam()).change(entries);
    std::memcpy(ring_entries, entries.data(), sizeof entries);
  }
  bool arrived() {
    for (int tag = 0; tag < 2; ++tag) {
      if (std::memcmp(from(tag), to(tag), size()) != 0) return false;
    }
    return true;
  }

  LoopConnection loop_;
};

TEST_P(RewrittenClearToSend, HarmsNobodyButItsWriter) {
  const bool ends = std::get<0>(GetParam()).ends;
  Request* const receive = receiveTwo();
  ASSERT_NE(receive, nullptr);
  Request* first = nullptr;
  for (test::Patience patience; first == nullptr; patience.again()) ASSERT_OK(send(0, &first));
  ASSERT_NE(ring_entries, nullptr);
  rewrite();
  Request* second = nullptr;
  // It fails, or waits for a clear-to-send of its tag.
  if (!send(1, &second).ok() || second == nullptr) {
    EXPECT_TRUE(ends);
    return;
  }
  const bool done = finish({receive, first, second});
  EXPECT_EQ(done, !ends);
  if (done) EXPECT_TRUE(arrived());
}

INSTANTIATE_TEST_SUITE_P(
    Each, RewrittenClearToSend,
    testing::Combine(
        testing::Values(
            Rewriting{"MoreMessages",
                      [](auto& entries) {
                        for (ClearToSend& entry : entries)
                          entry.stamp = (entry.stamp & ~uint64_t{kStampCountMask}) | 8;
                      },
                      false},
            Rewriting{"Nothing", [](auto& entries) { entries[0].stamp = entries[1].stamp = 0; }, false},
            Rewriting{"AllBits",
                      [](auto& entries) {
                        entries[0].stamp = entries[1].stamp = std::numeric_limits<uint64_t>::max();
                      },
                      false},
            Rewriting{"AnotherNumber",
                      [](auto& entries) {
                        for (ClearToSend& entry : entries) entry.stamp += uint64_t{1} << kStampNumberShift;
                      },
                      false},
            Rewriting{"NoRoom", [](auto& entries) { entries[1].bytes = 0; }, true},
            Rewriting{"AnotherTag", [](auto& entries) { entries[1].tag = 77; }, true},
            // The receiver's NIC refuses the write. Both ends recover, and the receiver tells the truth then.
            Rewriting{"AnotherAddress", [](auto& entries) { entries[1].address += kBytes; }, false},
            Rewriting{"AnotherKey", [](auto& entries) { entries[1].remote_key ^= 0x5555; }, false}),
        testing::Values(std::size_t{64}, std::size_t{5000}, std::size_t{90'000})),
    [](const auto& test) { return std::get<0>(test.param).name + std::to_string(std::get<1>(test.param)); });

}  // namespace
}  // namespace railwise::net
