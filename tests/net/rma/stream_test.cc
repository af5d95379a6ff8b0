#include "net/rma/stream.h"

#include <gtest/gtest.h>

#include <array>

namespace railwise::net {
namespace {

using State = RmaRequest::State;

// Puts with a signal each, all posted.
struct Posted {
  Posted() {
    for (RmaRequest& request : requests) {
      request.kind = RmaRequest::Kind::kPut;
      request.number = stream.nextSignal();
      stream.add(request);
    }
    while (stream.toPost() != nullptr) stream.posted();
  }
  RmaStream stream;
  std::array<RmaRequest, 3> requests;
};

TEST(RmaStream, RequestsAreDoneInTheirOrder) {
  Posted its;
  EXPECT_EQ(&its.stream.take(), &its.requests[0]);
  EXPECT_EQ(its.requests[0].state, State::kDone);
  EXPECT_EQ(its.stream.doneSignal(), 1U);
  EXPECT_EQ(its.stream.first(), &its.requests[1]);
}

TEST(RmaStream, AFailureRepeatsWhatNobodyHasConfirmed) {
  Posted its;
  its.stream.again();
  its.stream.applied(0);
  EXPECT_EQ(its.stream.toPost(), &its.requests[0]);
  for (const RmaRequest& request : its.requests) {
    EXPECT_EQ(request.state, State::kWaiting);
    EXPECT_FALSE(request.certain);
  }
}

TEST(RmaStream, AFailureRepeatsNothingThatTheTargetHas) {
  Posted its;
  its.stream.again();
  its.stream.applied(2);
  EXPECT_TRUE(its.requests[0].certain);
  EXPECT_TRUE(its.requests[1].certain);
  EXPECT_FALSE(its.requests[2].certain);
}

// A get brings nothing to the target, so no signal says that it is done.
TEST(RmaStream, AGetIsRepeatedWhateverTheTargetHas) {
  Posted its;
  its.requests[0].kind = RmaRequest::Kind::kGet;
  its.stream.again();
  its.stream.applied(2);
  EXPECT_FALSE(its.requests[0].certain);
  EXPECT_TRUE(its.requests[1].certain);
}

}  // namespace
}  // namespace railwise::net
