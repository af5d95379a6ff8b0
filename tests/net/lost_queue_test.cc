// A connection whose queue pair, completion queue or device is reported lost while the data path sees
// nothing.
#include <gtest/gtest.h>

#include "loop_connection.h"

namespace railwise::net {
namespace {

// The receiver's clear-to-send is the first write; `event` comes with it.
bool receiveEnds(const std::string& event) {
  LoopConnection loop(4096, "count=1;fault opcode=write nth=1 " + event);
  Request* const request = loop.receive(1, 0, 64);
  return request != nullptr &&
         !LoopConnection::finish(request);  // nobody sends: it ends by an error or never
}

TEST(LostQueue, EndsAWait) {
  for (const char* event : {"event=qp_access_err", "event=qp_req_err", "event=cq_err", "device_fatal"})
    EXPECT_TRUE(receiveEnds(event)) << event;
}

TEST(LostQueue, OnlyReportedWhenSoAsked) {
  setenv("NCCL_IB_RETURN_ASYNC_EVENTS", "0", 1);
  LoopConnection loop(4096, "count=1;fault opcode=write nth=1 event=qp_access_err");
  unsetenv("NCCL_IB_RETURN_ASYNC_EVENTS");
  Request* const receive = loop.receive(1, 0, 64);
  ASSERT_NE(receive, nullptr);
  Request* send = nullptr;
  while (send == nullptr) send = loop.send(1024, 64);
  EXPECT_TRUE(LoopConnection::finish(send));
  EXPECT_TRUE(LoopConnection::finish(receive));
}

}  // namespace
}  // namespace railwise::net
