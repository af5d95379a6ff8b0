// The connection manager between two processes: connections, and the death of one end.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "softdev/cm_end.h"
#include "tests/wait.h"

namespace railwise::softdev::test {
namespace {

// Numbers between a process and its child.
struct Line {
  int fd;
  void tell(int32_t number) const {
    if (write(fd, &number, sizeof number) != sizeof number) throw std::runtime_error("the other end is gone");
  }
  int32_t hear() const {
    int32_t number = 0;
    if (read(fd, &number, sizeof number) != sizeof number) throw std::runtime_error("the other end is gone");
    return number;
  }
};

// A forked process, which runs `body` and then waits to be killed. Made before this process has a device.
class Child {
 public:
  explicit Child(const std::function<void(const Line&)>& body) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    pid_ = fork();
    if (pid_ == 0) {
      close(ends[0]);
      try {
        body(Line{ends[1]});
        railwise::test::waitToBeKilled();
      } catch (const std::exception& error) {
        (void)!write(2, error.what(), std::string_view(error.what()).size());
      }
      _exit(1);
    }
    close(ends[1]);
    line = {ends[0]};
  }
  ~Child() {
    kill();
    close(line.fd);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

  Line line{-1};

 private:
  pid_t pid_ = -1;
};

class CmProcesses : public testing::TestWithParam<const char*> {
 protected:
  bool iwarp() const { return std::string_view(GetParam()) == "iwarp"; }
  const std::string fabric = uniqueFabric();
  const std::string ours = "name=ours,adversarial=on,link=" + std::string(GetParam());
  const std::string theirs = "name=theirs,link=" + std::string(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Links, CmProcesses, testing::Values("roce", "ib", "iwarp"),
                         [](const auto& suite) { return std::string(suite.param); });

// The address of the first of `devices`, as its own process would compute it.
sockaddr_storage addressOf(const std::string& devices, const std::string& fabric, int32_t port) {
  OpenDevice device(devices, fabric);
  return cmAddress(device, static_cast<uint16_t>(port));
}

// Listens, says where, accepts one connection with a queue pair that has one receive, and says what came.
void serve(ibv_context* context, const Line& line, bool iwarp) {
  CmChannel channel;
  CmId listener = listenOn(channel, context);
  line.tell(portOf(listener));
  Endpoint end(context);
  CmId accepted(channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id);
  if (end.toInit() != 0 || end.receive(1, 0, 64) != 0) throw std::runtime_error("queue pair");
  if (!iwarp) bringUp(accepted, end.qp);
  const Address memory = end.address();
  const std::string where(reinterpret_cast<const char*>(&memory), sizeof memory);
  rdma_conn_param reply = parameters(where, end.qp->qp_num);
  if (cm::accept(accepted, &reply) != 0) throw std::runtime_error("accept");
  channel.expect(RDMA_CM_EVENT_ESTABLISHED);
  if (end.wait().status != IBV_WC_SUCCESS) throw std::runtime_error("receive");
  line.tell(static_cast<int32_t>(*end.word(0) + *end.word(128)));
  railwise::test::waitToBeKilled();
}

// Listens, says where, and says so when it was asked; answers nobody.
void ignore(ibv_context* context, const Line& line) {
  CmChannel events;
  CmId listener = listenOn(events, context);
  line.tell(portOf(listener));
  events.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  line.tell(1);
  railwise::test::waitToBeKilled();
}

TEST_P(CmProcesses, ConnectAndSeeTheOtherDie) {
  Child child([&](const Line& line) { serve(OpenDevice(theirs, fabric), line, iwarp()); });
  sockaddr_storage address = addressOf(theirs, fabric, child.line.hear());
  OpenDevice device(ours, fabric);
  CmChannel channel;
  Endpoint end(device);
  ASSERT_EQ(end.toInit(), 0);
  CmId caller = calling(channel, device, address, parameters("", end.qp->qp_num));
  const CmEvent answer = channel.expect(iwarp() ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_RESPONSE);
  ASSERT_GE(answer.private_data.size(), sizeof end.peer);
  std::memcpy(&end.peer, answer.private_data.data(), sizeof end.peer);
  if (!iwarp()) {
    bringUp(caller, end.qp);
    ASSERT_EQ(cm::establish(caller), 0);
  }
  *end.word(8) = 4000;
  EXPECT_EQ(sendAndWait(end, {.offset = 8, .length = 8, .remote_offset = 128}), IBV_WC_SUCCESS);
  *end.word(0) = 242;
  EXPECT_EQ(sendAndWait(end, {.opcode = IBV_WR_SEND, .length = 8}), IBV_WC_SUCCESS);
  EXPECT_EQ(child.line.hear(), 4242);  // what was sent, and what was written before it
  EXPECT_TRUE(channel.empty());
  child.kill();
  channel.expect(RDMA_CM_EVENT_DISCONNECTED);
  if (iwarp()) {
    EXPECT_EQ(end.state(), IBV_QPS_ERR);
  }
}

TEST_P(CmProcesses, TheListenerDiesBeforeItAnswers) {
  Child child([&](const Line& line) { ignore(OpenDevice(theirs, fabric), line); });
  sockaddr_storage address = addressOf(theirs, fabric, child.line.hear());
  OpenDevice device(ours, fabric);
  CmChannel channel;
  CmId caller = calling(channel, device, address, parameters("", 5));
  EXPECT_EQ(child.line.hear(), 1);
  EXPECT_TRUE(channel.empty());
  child.kill();
  EXPECT_EQ(channel.expect(RDMA_CM_EVENT_REJECTED).status, iwarp() ? -ECONNREFUSED : 28);
  CmId again = calling(channel, device, address, parameters("", 5));  // its port number is free
  EXPECT_EQ(channel.expect(RDMA_CM_EVENT_REJECTED).status, iwarp() ? -ECONNREFUSED : 8);
}

TEST_P(CmProcesses, TheCallerDiesBeforeItIsAnswered) {
  Child child([&](const Line& line) {
    sockaddr_storage address = addressOf(ours, fabric, line.hear());
    OpenDevice device(theirs, fabric);
    CmChannel events;
    CmId caller = calling(events, device, address, parameters("", 5));
    railwise::test::waitToBeKilled();
  });
  OpenDevice device(ours, fabric);
  CmChannel channel;
  CmId listener = listenOn(channel, device);
  child.line.tell(portOf(listener));
  CmId request(channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id);
  EXPECT_TRUE(channel.empty());
  child.kill();
  EXPECT_EQ(channel.expect(RDMA_CM_EVENT_REJECTED).id, request);
}

// A child has copies of its parent's sockets, but the parent's end does not live on in them.
TEST_P(CmProcesses, AForkedChildHoldsNoConnection) {
  Child child([&](const Line& line) {
    sockaddr_storage address = addressOf(ours, fabric, line.hear());
    OpenDevice device(theirs, fabric);
    CmChannel events;
    CmId caller = calling(events, device, address, parameters("", 5));
    const pid_t grandchild = fork();
    if (grandchild != 0) line.tell(grandchild);
    railwise::test::waitToBeKilled();
  });
  OpenDevice device(ours, fabric);
  CmChannel channel;
  CmId listener = listenOn(channel, device);
  child.line.tell(portOf(listener));
  CmId request(channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id);
  const pid_t grandchild = child.line.hear();
  child.kill();
  EXPECT_EQ(channel.expect(RDMA_CM_EVENT_REJECTED).id, request);
  EXPECT_EQ(::kill(grandchild, SIGKILL), 0);  // it was alive
}

}  // namespace
}  // namespace railwise::softdev::test
