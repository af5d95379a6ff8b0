// Closing in every state: NCCL closes whatever it has when a communicator aborts.
#include <signal.h>
#include <sys/wait.h>

#include "api.h"
#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise::test {
namespace {

template <typename A>
class CloseTest : public ApiTest<A> {};
TYPED_TEST_SUITE(CloseTest, AllVersions, VersionName);

TYPED_TEST(CloseTest, NullsAreAccepted) {
  Pair<TypeParam> pair;
  EXPECT_EQ(TypeParam::table().closeSend(nullptr), ncclSuccess);
  EXPECT_EQ(TypeParam::table().closeRecv(nullptr), ncclSuccess);
  EXPECT_EQ(TypeParam::table().closeListen(nullptr), ncclSuccess);
  EXPECT_EQ(TypeParam::table().deregMr(pair.send(), nullptr), ncclSuccess);
}

// The mistakes of a caller that has mixed its handles up, or closes twice.
TYPED_TEST(CloseTest, HandlesOfAnotherKindAreRefused) {
  Session<TypeParam> session;
  Pair<TypeParam> pair(session);
  const auto& table = TypeParam::table();
  Handle handle;
  void* listener = nullptr;
  ASSERT_EQ(TypeParam::listen(session.context(), 0, handle.bytes(), &listener), ncclSuccess);
  void* receive = &handle;
  for (void* const wrong : {pair.send(), pair.receive(), static_cast<void*>(&session)}) {
    EXPECT_EQ(TypeParam::accept(wrong, &receive), ncclInvalidArgument);
    EXPECT_EQ(receive, nullptr);
    EXPECT_EQ(table.closeListen(wrong), ncclInvalidArgument);
  }
  for (void* const wrong : {pair.receive(), listener, static_cast<void*>(&session)})
    EXPECT_EQ(table.closeSend(wrong), ncclInvalidArgument);
  for (void* const wrong : {pair.send(), listener, static_cast<void*>(&session)})
    EXPECT_EQ(table.closeRecv(wrong), ncclInvalidArgument);
  EXPECT_HAS(warnings(), "closeListen: the handle is a sending connection, and a listener is needed");
  EXPECT_HAS(warnings(), "closeSend: the handle is not a sending connection, or it was closed before");
  EXPECT_EQ(TypeParam::accept(listener, &receive), ncclSuccess);  // nothing was closed
  EXPECT_EQ(table.closeListen(listener), ncclSuccess);
  EXPECT_EQ(table.closeListen(listener), ncclInvalidArgument);
}

TYPED_TEST(CloseTest, ListenerAtEveryStepOfTheHandshake) {
  Session<TypeParam> session;
  for (int steps = 0; steps < 8; ++steps) {
    Handle handle;
    void *listener = nullptr, *send = nullptr, *receive = nullptr;
    ASSERT_EQ(TypeParam::listen(session.context(), 0, handle.bytes(), &listener), ncclSuccess);
    for (int i = 0; i < steps; ++i) {
      if (send == nullptr)
        ASSERT_EQ(TypeParam::connect(session.context(), 0, handle.bytes(), &send), ncclSuccess);
      if (receive == nullptr) ASSERT_EQ(TypeParam::accept(listener, &receive), ncclSuccess);
    }
    if (steps > 0 && send == nullptr) ++g_forgotten_attempts;
    EXPECT_EQ(TypeParam::table().closeListen(listener), ncclSuccess);
    EXPECT_EQ(TypeParam::table().closeSend(send), ncclSuccess);
    EXPECT_EQ(TypeParam::table().closeRecv(receive), ncclSuccess);
  }
}

TYPED_TEST(CloseTest, WithRequestsOutstanding) {
  Session<TypeParam> session;
  for (const bool sender_first : {true, false}) {
    Pair<TypeParam> pair(session);
    std::vector<char> memory(1 << 16);
    void *send_handle = nullptr, *receive_handle = nullptr;
    ASSERT_EQ(TypeParam::regMr(pair.send(), memory.data(), memory.size(), &send_handle), ncclSuccess);
    ASSERT_EQ(TypeParam::regMr(pair.receive(), memory.data(), memory.size(), &receive_handle), ncclSuccess);
    for (int i = 0; i < 8; ++i)
      startReceive<TypeParam>(pair.receive(), {{memory.data(), 1024, 0, receive_handle}});
    for (int i = 0; i < 4; ++i) startSend<TypeParam>(pair.send(), memory.data() + 4096, 1024, 0, send_handle);
    // NCCL deregisters before it closes.
    EXPECT_EQ(TypeParam::table().deregMr(pair.send(), send_handle), ncclSuccess);
    EXPECT_EQ(TypeParam::table().deregMr(pair.receive(), receive_handle), ncclSuccess);
    pair.close(sender_first);
  }
}

// Both ends of a connection, to be closed one by one.
template <typename A>
struct Ends {
  explicit Ends(const Session<A>& session) {
    Handle handle;
    void* listener = nullptr;
    EXPECT_EQ(A::listen(session.context(), 0, handle.bytes(), &listener), ncclSuccess);
    shakeHands<A>(session.context(), handle, listener, &send, &receive);
    EXPECT_EQ(A::table().closeListen(listener), ncclSuccess);
  }
  void* send = nullptr;
  void* receive = nullptr;
};

// Everything a peer has sent is delivered although it has closed since, and can still be flushed.
TYPED_TEST(CloseTest, DataOutlivesTheSender) {
  Session<TypeParam> session;
  Ends<TypeParam> ends(session);
  {
    Memory<TypeParam> to(ends.receive, 32, 0, onIwarp() ? NCCL_PTR_HOST : NCCL_PTR_CUDA);
    void* request = startReceive<TypeParam>(ends.receive, {{to.data(), 32, 0, to.handle()}});
    {
      Memory<TypeParam> from(ends.send, 32, 4);
      finish<TypeParam>(startSend<TypeParam>(ends.send, from.data(), 32, 0, from.handle()));
    }
    EXPECT_EQ(TypeParam::table().closeSend(ends.send), ncclSuccess);
    int size = 0;
    finish<TypeParam>(request, &size);
    EXPECT_EQ(size, 32);
    EXPECT_EQ(to.wrong(4, 32), 0U);
    void *data = to.data(), *handle = to.handle(), *flush = nullptr;
    ASSERT_EQ(TypeParam::table().iflush(ends.receive, 1, &data, &size, &handle, &flush), ncclSuccess);
    if (!onIwarp()) finish<TypeParam>(flush);  // which has no flush
  }
  EXPECT_EQ(TypeParam::table().closeRecv(ends.receive), ncclSuccess);
}

// A send that has arrived completes although the receiver has closed.
TYPED_TEST(CloseTest, ASendOutlivesTheReceiver) {
  Session<TypeParam> session;
  Ends<TypeParam> ends(session);
  void* receive = startReceive<TypeParam>(ends.receive, {{nullptr, 0, 0, nullptr}});
  void* send = startSend<TypeParam>(ends.send, nullptr, 0, 0, nullptr);
  finish<TypeParam>(receive);
  EXPECT_EQ(TypeParam::table().closeRecv(ends.receive), ncclSuccess);
  finish<TypeParam>(send);
  EXPECT_EQ(TypeParam::table().closeSend(ends.send), ncclSuccess);
}

// Waiting with a tag that no open receive has.
TYPED_TEST(CloseTest, WaitingWithAnotherTagForAPeerThatClosedIsAnError) {
  Session<TypeParam> session;
  Ends<TypeParam> ends(session);
  startReceive<TypeParam>(ends.receive, {{nullptr, 0, 7, nullptr}});
  EXPECT_EQ(TypeParam::table().closeRecv(ends.receive), ncclSuccess);
  EXPECT_EQ(sendUntilError<TypeParam>(ends.send, 8), ncclRemoteError);
  EXPECT_EQ(TypeParam::table().closeSend(ends.send), ncclSuccess);
}

// A forked child (a data loader, say) has copies of our descriptors; closing must reach the peer all the
// same.
TYPED_TEST(CloseTest, AForkedChildKeepsNothingOpen) {
  Session<TypeParam> session;
  Ends<TypeParam> ends(session);
  const pid_t child = fork();
  if (child == 0) waitToBeKilled();
  EXPECT_EQ(TypeParam::table().closeRecv(ends.receive), ncclSuccess);
  EXPECT_EQ(sendUntilError<TypeParam>(ends.send, 0), ncclRemoteError);
  EXPECT_EQ(TypeParam::table().closeSend(ends.send), ncclSuccess);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

// The other end learns at once that this one has failed, although nobody has closed anything.
TYPED_TEST(CloseTest, AFailureReachesThePeer) {
  Session<TypeParam> session;
  Ends<TypeParam> ends(session);
  {
    Memory<TypeParam> memory(ends.send, 64);
    void* receive = startReceive<TypeParam>(ends.receive, {{nullptr, 0, 0, nullptr}});
    EXPECT_EQ(sendUntilError<TypeParam>(ends.send, 0, memory.data(), 64, memory.handle()),
              ncclInvalidArgument);
    ncclResult_t result = ncclSuccess;
    for (int64_t i = 0; i < 10'000'000'000 && result == ncclSuccess; ++i) {
      int done = 0;
      result = TypeParam::table().test(receive, &done, nullptr);
    }
    EXPECT_EQ(result, ncclRemoteError);
  }
  EXPECT_EQ(TypeParam::table().closeSend(ends.send), ncclSuccess);
  EXPECT_EQ(TypeParam::table().closeRecv(ends.receive), ncclSuccess);
}

// A peer that closes while we wait for it is an error that names it, never a hang.
TYPED_TEST(CloseTest, WaitingForAPeerThatClosedIsAnError) {
  Session<TypeParam> session;
  for (const bool sender_waits : {true, false}) {
    clearLog();
    const Ends<TypeParam> ends(session);
    void *const send = ends.send, *const receive = ends.receive;
    ncclResult_t result = ncclSuccess;
    void* request = nullptr;
    if (sender_waits) {
      EXPECT_EQ(TypeParam::table().closeRecv(receive), ncclSuccess);
      for (int64_t i = 0; i < 10'000'000'000 && result == ncclSuccess; ++i) {
        result = TypeParam::isend(send, nullptr, 0, 0, nullptr, &request);
      }
      EXPECT_EQ(TypeParam::table().closeSend(send), ncclSuccess);
    } else {
      request = startReceive<TypeParam>(receive, {{nullptr, 0, 0, nullptr}});
      EXPECT_EQ(TypeParam::table().closeSend(send), ncclSuccess);
      for (int64_t i = 0; i < 10'000'000'000 && result == ncclSuccess; ++i) {
        int done = 0;
        result = TypeParam::table().test(request, &done, nullptr);
      }
      EXPECT_EQ(TypeParam::table().closeRecv(receive), ncclSuccess);
    }
    EXPECT_EQ(result, ncclRemoteError);
    EXPECT_HAS(warnings(), std::to_string(getpid())) << "names no peer: ";
  }
}

}  // namespace
}  // namespace railwise::test
