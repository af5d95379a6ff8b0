// Closing in every state: NCCL closes whatever it has when a communicator aborts.
#include "api.h"

namespace railwise::test {
namespace {

template <typename A>
class CloseTest : public ApiTest<A> {};
TYPED_TEST_SUITE(CloseTest, AllVersions, VersionName);

TYPED_TEST(CloseTest, NullsAreAccepted) {
  Session<TypeParam> session;
  Pair<TypeParam> pair(session);
  EXPECT_EQ(TypeParam::table().closeSend(nullptr), ncclSuccess);
  EXPECT_EQ(TypeParam::table().closeRecv(nullptr), ncclSuccess);
  EXPECT_EQ(TypeParam::table().closeListen(nullptr), ncclSuccess);
  EXPECT_EQ(TypeParam::table().deregMr(pair.send(), nullptr), ncclSuccess);
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

// Everything a peer has sent is delivered although it has closed since.
TYPED_TEST(CloseTest, DataOutlivesTheSender) {
  Session<TypeParam> session;
  Handle handle;
  void *listener = nullptr, *send = nullptr, *receive = nullptr;
  ASSERT_EQ(TypeParam::listen(session.context(), 0, handle.bytes(), &listener), ncclSuccess);
  shakeHands<TypeParam>(session.context(), handle, listener, &send, &receive);
  {
    Memory<TypeParam> from(send, 32, 4);
    Memory<TypeParam> to(receive, 32);
    void* request = startReceive<TypeParam>(receive, {{to.data(), 32, 0, to.handle()}});
    finish<TypeParam>(startSend<TypeParam>(send, from.data(), 32, 0, from.handle()));
    EXPECT_EQ(TypeParam::table().closeListen(listener), ncclSuccess);
    finish<TypeParam>(request);
    EXPECT_EQ(to.wrong(4, 32), 0U);
    request = startReceive<TypeParam>(receive, {{to.data(), 32, 0, to.handle()}});
    void* last = startSend<TypeParam>(send, from.data(), 32, 0, from.handle());
    finish<TypeParam>(last);
    EXPECT_EQ(TypeParam::table().deregMr(send, nullptr), ncclSuccess);
    int size = 0;
    finish<TypeParam>(request, &size);
    EXPECT_EQ(size, 32);
  }
  EXPECT_EQ(TypeParam::table().closeSend(send), ncclSuccess);
  EXPECT_EQ(TypeParam::table().closeRecv(receive), ncclSuccess);
}

// A peer that closes while we wait for it is an error that names it, never a hang.
TYPED_TEST(CloseTest, WaitingForAPeerThatClosedIsAnError) {
  Session<TypeParam> session;
  for (const bool sender_waits : {true, false}) {
    clearLog();
    Handle handle;
    void *listener = nullptr, *send = nullptr, *receive = nullptr;
    ASSERT_EQ(TypeParam::listen(session.context(), 0, handle.bytes(), &listener), ncclSuccess);
    shakeHands<TypeParam>(session.context(), handle, listener, &send, &receive);
    EXPECT_EQ(TypeParam::table().closeListen(listener), ncclSuccess);
    ncclResult_t result = ncclSuccess;
    void* request = nullptr;
    if (sender_waits) {
      EXPECT_EQ(TypeParam::table().closeRecv(receive), ncclSuccess);
      for (int i = 0; i < 1'000'000'000 && result == ncclSuccess; ++i) {
        result = TypeParam::isend(send, nullptr, 0, 0, nullptr, &request);
      }
      EXPECT_EQ(TypeParam::table().closeSend(send), ncclSuccess);
    } else {
      request = startReceive<TypeParam>(receive, {{nullptr, 0, 0, nullptr}});
      EXPECT_EQ(TypeParam::table().closeSend(send), ncclSuccess);
      for (int i = 0; i < 1'000'000'000 && result == ncclSuccess; ++i) {
        int done = 0;
        result = TypeParam::table().test(request, &done, nullptr);
      }
      EXPECT_EQ(TypeParam::table().closeRecv(receive), ncclSuccess);
    }
    EXPECT_EQ(result, ncclRemoteError);
    EXPECT_NE(warnings().find(std::to_string(getpid())), std::string::npos)
        << "names no peer: " << warnings();
  }
}

}  // namespace
}  // namespace railwise::test
