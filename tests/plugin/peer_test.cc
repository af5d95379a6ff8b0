// Peers that are not what they should be: other plugins, strangers on the listening port, dead processes.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <functional>

#include "api.h"
#include "net/wireup/authentication.h"
#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise::test {
namespace {

template <typename A>
class PeerTest : public ApiTest<A> {};
TYPED_TEST_SUITE(PeerTest, AllVersions, VersionName);

TYPED_TEST(PeerTest, AHandleOfAnotherPluginFailsAtOnce) {
  Session<TypeParam> session;
  Handle handle;
  auto* address = static_cast<char*>(handle.bytes());
  address[0] = AF_INET;  // as net_ib's begins: a socket address, then a random number
  std::memset(address + 28, 0x3c, 8);
  void* send = kStale;
  EXPECT_EQ(TypeParam::connect(session.context(), 0, handle.bytes(), &send), ncclInvalidUsage);
  EXPECT_EQ(send, nullptr);
  EXPECT_HAS(warnings(), "runs another network plugin");
}

TYPED_TEST(PeerTest, AnotherProtocolIsNamedWithTheEndToUpgrade) {
  Session<TypeParam> session;
  Handle handle;
  void *listener = nullptr, *send = kStale;
  ASSERT_EQ(TypeParam::listen(session.context(), 0, handle.bytes(), &listener), ncclSuccess);
  net::ListenHandle changed;
  std::memcpy(&changed, handle.bytes(), sizeof changed);
  changed.oldest_version = changed.newest_version = 77;
  std::memcpy(handle.bytes(), &changed, sizeof changed);
  EXPECT_EQ(TypeParam::connect(session.context(), 0, handle.bytes(), &send), ncclInvalidUsage);
  EXPECT_HAS(warnings(), "protocol version 77");
  EXPECT_HAS(warnings(), "upgrade Railwise on this node");
  EXPECT_EQ(TypeParam::table().closeListen(listener), ncclSuccess);
}

// The number of an attempt in a handle comes from outside: it must not lead to somebody else's attempt.
TYPED_TEST(PeerTest, AHandleCannotTakeOverAnotherAttempt) {
  Session<TypeParam> session;
  Handle first, second;
  void *listener1 = nullptr, *listener2 = nullptr, *send1 = nullptr, *send2 = nullptr;
  ASSERT_EQ(TypeParam::listen(session.context(), 0, first.bytes(), &listener1), ncclSuccess);
  ASSERT_EQ(TypeParam::listen(session.context(), 0, second.bytes(), &listener2), ncclSuccess);
  ASSERT_EQ(TypeParam::connect(session.context(), 0, first.bytes(), &send1), ncclSuccess);
  constexpr size_t kNumber = offsetof(net::ListenHandle, connecting);
  std::memcpy(static_cast<char*>(second.bytes()) + kNumber, static_cast<char*>(first.bytes()) + kNumber,
              sizeof(net::ListenHandle{}.connecting));
  void *receive1 = nullptr, *receive2 = nullptr;
  for (int i = 0; i < 10'000 && receive2 == nullptr; ++i) {
    if (send2 == nullptr)
      ASSERT_EQ(TypeParam::connect(session.context(), 0, second.bytes(), &send2), ncclSuccess);
    ASSERT_EQ(TypeParam::accept(listener1, &receive1), ncclSuccess);
    ASSERT_EQ(receive1, nullptr) << "the second handle reached the first listener";
    ASSERT_EQ(TypeParam::accept(listener2, &receive2), ncclSuccess);
  }
  EXPECT_NE(receive2, nullptr);
  ++g_forgotten_attempts;  // the first
  for (void* listener : {listener1, listener2})
    EXPECT_EQ(TypeParam::table().closeListen(listener), ncclSuccess);
  EXPECT_EQ(TypeParam::table().closeSend(send2), ncclSuccess);
  EXPECT_EQ(TypeParam::table().closeRecv(receive2), ncclSuccess);
}

TYPED_TEST(PeerTest, EthernetAndInfiniBandRefuseEachOther) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("the kernel's drivers have no InfiniBand");
  Session<TypeParam> session("name=a,link=roce;name=b,link=ib");
  Handle handle;
  void *listener = nullptr, *send = nullptr, *receive = nullptr;
  ASSERT_EQ(TypeParam::listen(session.context(), 1, handle.bytes(), &listener), ncclSuccess);
  ncclResult_t connected = ncclSuccess, accepted = ncclSuccess;
  for (Patience patience; connected == ncclSuccess || accepted == ncclSuccess; patience.again()) {
    if (connected == ncclSuccess) connected = TypeParam::connect(session.context(), 0, handle.bytes(), &send);
    if (accepted == ncclSuccess) accepted = TypeParam::accept(listener, &receive);
  }
  EXPECT_EQ(connected, ncclRemoteError);
  EXPECT_EQ(accepted, ncclRemoteError);
  EXPECT_EQ(send, nullptr);
  EXPECT_HAS(warnings(), "the ports have different link layers");
  EXPECT_EQ(TypeParam::table().closeListen(listener), ncclSuccess);
}

class Stranger {
 public:
  explicit Stranger(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~Stranger() { ::close(fd_); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  void say(const std::string& bytes) const {
    EXPECT_EQ(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL), ssize_t(bytes.size()));
  }

 private:
  int fd_;
};

TYPED_TEST(PeerTest, StrangersAreLoggedOnceAndTheRealPeerConnects) {
  Session<TypeParam> session;
  Handle handle;
  void* listener = nullptr;
  ASSERT_EQ(TypeParam::listen(session.context(), 0, handle.bytes(), &listener), ncclSuccess);
  net::ListenHandle fields;
  std::memcpy(&fields, handle.bytes(), sizeof fields);

  const Stranger silent(fields.port);
  const Stranger garbage(fields.port);
  garbage.say("GET / HTTP/1.1\r\nHost: railwise\r\n\r\n");
  const Stranger talkative(fields.port);
  talkative.say(std::string(20'000, 'x'));
  { const Stranger hangs_up(fields.port); }
  const Stranger half(fields.port);  // our magic, and no more
  half.say(std::string(reinterpret_cast<const char*>(&net::kMagic), sizeof net::kMagic));
  const Stranger other_job(fields.port);
  auto request = net::makeMessage<net::ConnectRequest>(net::MessageType::kRequest);
  net::seal(request, net::makeSecret());
  other_job.say(std::string(reinterpret_cast<const char*>(&request), sizeof request));

  clearLog();
  void* receive = nullptr;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(TypeParam::accept(listener, &receive), ncclSuccess);
    ASSERT_EQ(receive, nullptr);
  }
  const std::string log = warnings();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  EXPECT_HAS(log, "a stranger called from 127.0.0.1");

  void* send = nullptr;
  shakeHands<TypeParam>(session.context(), handle, listener, &send, &receive);
  EXPECT_EQ(TypeParam::table().closeListen(listener), ncclSuccess);
  EXPECT_EQ(TypeParam::table().closeSend(send), ncclSuccess);
  EXPECT_EQ(TypeParam::table().closeRecv(receive), ncclSuccess);
}

TYPED_TEST(PeerTest, ACrowdOfSilentStrangersDoesNotKeepThePeerOut) {
  Session<TypeParam> session;
  Handle handle;
  void* listener = nullptr;
  ASSERT_EQ(TypeParam::listen(session.context(), 0, handle.bytes(), &listener), ncclSuccess);
  net::ListenHandle fields;
  std::memcpy(&fields, handle.bytes(), sizeof fields);
  std::vector<std::unique_ptr<Stranger>> crowd;
  for (int i = 0; i < 100; ++i) crowd.push_back(std::make_unique<Stranger>(fields.port));
  void *send = nullptr, *receive = nullptr;
  shakeHands<TypeParam>(session.context(), handle, listener, &send, &receive);
  EXPECT_EQ(TypeParam::table().closeListen(listener), ncclSuccess);
  EXPECT_EQ(TypeParam::table().closeSend(send), ncclSuccess);
  EXPECT_EQ(TypeParam::table().closeRecv(receive), ncclSuccess);
}

// A port at which nobody listens, and which no other program can take meanwhile.
class SilentPort {
 public:
  explicit SilentPort(uint16_t port) : fd_(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int off = 0;
    setsockopt(fd_, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    sockaddr_in6 address = {};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    taken_ = bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~SilentPort() { ::close(fd_); }
  SilentPort(const SilentPort&) = delete;
  SilentPort& operator=(const SilentPort&) = delete;
  bool taken() const { return taken_; }

 private:
  int fd_;
  bool taken_ = false;
};

TYPED_TEST(PeerTest, AListenerThatIsGoneIsAnErrorThatNamesIt) {
  Session<TypeParam> session;
  Handle handle;
  void *listener = nullptr, *send = nullptr;
  std::unique_ptr<SilentPort> port;
  for (Patience patience; port == nullptr || !port->taken(); patience.again()) {
    ASSERT_EQ(TypeParam::listen(session.context(), 0, handle.bytes(), &listener), ncclSuccess);
    ASSERT_EQ(TypeParam::table().closeListen(listener), ncclSuccess);
    net::ListenHandle fields;
    std::memcpy(&fields, handle.bytes(), sizeof fields);
    port = std::make_unique<SilentPort>(fields.port);
  }
  ncclResult_t result = ncclSuccess;
  for (Patience patience; result == ncclSuccess && send == nullptr; patience.again()) {
    result = TypeParam::connect(session.context(), 0, handle.bytes(), &send);
    usleep(1000);
  }
  EXPECT_EQ(result, ncclRemoteError);
  EXPECT_HAS(warnings(), "connecting to");
  EXPECT_HAS(warnings(), "Connection refused");
}

TYPED_TEST(PeerTest, ConnectGivesUpAfterItsTimeout) {
  setenv("RAILWISE_CONNECT_TIMEOUT", "1", 1);
  {
    Session<TypeParam> session;
    Handle handle;
    void *listener = nullptr, *send = nullptr;
    ASSERT_EQ(TypeParam::listen(session.context(), 0, handle.bytes(), &listener), ncclSuccess);
    ncclResult_t result = ncclSuccess;
    for (Patience patience; result == ncclSuccess && send == nullptr; patience.again()) {  // nobody accepts
      result = TypeParam::connect(session.context(), 0, handle.bytes(), &send);
      usleep(1000);
    }
    EXPECT_EQ(result, ncclRemoteError);
    EXPECT_HAS(warnings(), "RAILWISE_CONNECT_TIMEOUT=1 s");
    EXPECT_EQ(TypeParam::table().closeListen(listener), ncclSuccess);
  }
  unsetenv("RAILWISE_CONNECT_TIMEOUT");
}

// Runs `child` in a forked process with a pipe to it, before this process has touched the plugin.
class Child {
 public:
  explicit Child(const std::function<void(int to_parent, int from_parent)>& child) {
    int up[2], down[2];
    if (pipe(up) != 0 || pipe(down) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      endInTwoMinutes();
      try {
        child(up[1], down[0]);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
      _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    from_ = up[0];
    to_ = down[1];
    ::close(up[1]);
    ::close(down[0]);
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    ::close(from_);
    ::close(to_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void read(void* bytes, size_t count) const { ASSERT_EQ(::read(from_, bytes, count), ssize_t(count)); }
  void write(const void* bytes, size_t count) const { ASSERT_EQ(::write(to_, bytes, count), ssize_t(count)); }
  void kill() const { ::kill(pid_, SIGKILL); }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
  int from_, to_;
};

// A child that listens, accepts and posts receives (but never finishes any).
template <typename A>
void acceptAndReceive(
    int to_parent, int, const std::function<void()>& then = [] {}) {
  Session<A> session;
  Handle handle;
  void *listener = nullptr, *receive = nullptr;
  A::listen(session.context(), 0, handle.bytes(), &listener);
  if (write(to_parent, handle.bytes(), NCCL_NET_HANDLE_MAXSIZE) != NCCL_NET_HANDLE_MAXSIZE) _exit(1);
  for (Patience patience; receive == nullptr; patience.again()) A::accept(listener, &receive);
  std::vector<char> memory(4096);
  void* mr = nullptr;
  A::regMr(receive, memory.data(), memory.size(), &mr);
  for (int i = 0; i < 4; ++i) startReceive<A>(receive, {{memory.data(), 4096, 0, mr}});
  then();
  if (write(to_parent, "r", 1) != 1) _exit(1);
  waitToBeKilled();
}

// Sends to a child of acceptAndReceive(), which it kills. The error names it.
template <typename A>
void sendToWhoIsKilled(const Child& child) {
  // The child made its fabric's name from its own process id.
  if (!onRealDevices())
    setenv("RAILWISE_DEVICE", ("software:fabric=test" + std::to_string(child.pid()) + ",name=soft0").c_str(),
           1);
  void* context = nullptr;
  clearLog();
  ASSERT_EQ(A::init(&context), ncclSuccess) << warnings();
  Handle handle;
  child.read(handle.bytes(), NCCL_NET_HANDLE_MAXSIZE);
  void* send = nullptr;
  for (Patience patience; send == nullptr; patience.again())
    ASSERT_EQ(A::connect(context, 0, handle.bytes(), &send), ncclSuccess) << warnings();
  char ready = 0;
  child.read(&ready, 1);
  std::vector<char> memory(4096);
  void* mr = nullptr;
  ASSERT_EQ(A::regMr(send, memory.data(), memory.size(), &mr), ncclSuccess);
  finish<A>(startSend<A>(send, memory.data(), 4096, 0, mr));
  child.kill();
  ncclResult_t result = ncclSuccess;
  for (Patience patience; result == ncclSuccess; patience.again()) {
    void* request = nullptr;
    result = A::isend(send, memory.data(), 4096, 0, mr, &request);
    int done = 0;
    for (Patience request_patience; result == ncclSuccess && request != nullptr && done == 0;
         request_patience.again())
      result = A::table().test(request, &done, nullptr);
  }
  EXPECT_EQ(result, ncclRemoteError);
  typename A::Properties properties;
  ASSERT_EQ(A::table().getProperties(0, &properties), ncclSuccess);
  EXPECT_HAS(warnings(), ":" + std::to_string(child.pid()) + " (" + properties.name);
  EXPECT_EQ(A::table().deregMr(send, mr), ncclSuccess);
  EXPECT_EQ(A::table().closeSend(send), ncclSuccess);
  EXPECT_EQ(A::finalize(context), ncclSuccess);
}

TYPED_TEST(PeerTest, AKilledReceiverIsARemoteErrorThatNamesIt) {
  useDevice();
  const Child child([](int up, int down) { acceptAndReceive<TypeParam>(up, down); });
  sendToWhoIsKilled<TypeParam>(child);
}

// A data loader, say, has copies of the descriptors of the process that is killed: its TCP connections stay.
TEST(Peer, AKilledReceiverIsGoneAlsoWhileAForkedChildOfItLives) {
  useDevice();
  using Newest = Api<12>;
  int alive[2];
  ASSERT_EQ(pipe(alive), 0);
  const Child child([&](int up, int down) {
    ::close(alive[1]);
    acceptAndReceive<Newest>(up, down, [&] {
      if (fork() != 0) return;
      char byte = 0;
      _exit(static_cast<int>(read(alive[0], &byte, 1)));  // until the test has ended
    });
  });
  ::close(alive[0]);
  sendToWhoIsKilled<Newest>(child);
  ::close(alive[1]);
}

}  // namespace
}  // namespace railwise::test
