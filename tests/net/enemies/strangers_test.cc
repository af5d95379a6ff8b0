// Ten thousand strangers of all kinds call a listener, and the peer calls among them. They use up neither
// descriptors nor memory, and the peer gets through.
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <vector>

#include "loop_connection.h"
#include "net/enemies/middle.h"
#include "net/wireup/authentication.h"
#include "plugin/sanitizers.h"
#include "said.h"
#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise::net {
namespace {

constexpr int kStrangers = 10'000;
constexpr int kHeld = 600;  // strangers that stay on the line
constexpr std::size_t kFloodBytes = 64 << 10;

int openDescriptors() {
  DIR* const folder = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

long residentKb() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stol(line.substr(6));
  }
  return 0;
}

// What a stranger sends; the rest of its kind is in Crowd.
std::vector<std::string> whatStrangersSay(const std::string& replay) {
  auto guess = makeMessage<ConnectRequest>(MessageType::kRequest);
  guess.random = randomBytes();
  seal(guess, makeSecret());
  std::string changed = replay;
  changed[sizeof(MessageHeader)] ^= 1;
  return {"",                                                                // silent
          "R",                                                               // slow
          std::string(kFloodBytes, 'x'),                                     // flooding
          "GET / HTTP/1.1\r\nHost: railwise\r\n\r\n",                        //
          std::string(reinterpret_cast<const char*>(&guess), sizeof guess),  // with another secret
          replay,                                                            // the peer's own words, again
          changed,                                                           //
          replay.substr(0, kHelloBytes),                                     //
          std::string(reinterpret_cast<const char*>(&guess), sizeof guess - 1)};  // all but the last byte
}

// A process of its own, because of the descriptors. It calls until it is killed.
class Crowd {
 public:
  Crowd(uint16_t port, const std::vector<std::string>& words) {
    if (pipe2(pipe_, O_NONBLOCK) != 0) std::abort();
    child_ = fork();
    if (child_ == 0) {
      test::endInTwoMinutes();
      callAll(port, words);
    }
  }
  ~Crowd() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    for (const int fd : pipe_) close(fd);
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;
  bool allHaveCalled() {
    char byte = 0;
    all_ = all_ || read(pipe_[0], &byte, 1) == 1;
    return all_;
  }

 private:
  [[noreturn]] void callAll(uint16_t port, const std::vector<std::string>& words) const {
    std::vector<int> held(kHeld, -1);
    for (int i = 0;; i = (i + 1) % (1 << 30)) {
      int& place = held[static_cast<std::size_t>(i % kHeld)];
      if (place >= 0) hangUp(place, i);
      place = call(port, i, words[static_cast<std::size_t>(i) % words.size()]);
      if (i == kStrangers && write(pipe_[1], "", 1) != 1) std::abort();
    }
  }
  // Every third ends with a reset.
  static void hangUp(int fd, int i) {
    const linger reset = {1, 0};
    if (i % 3 == 0) (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(fd);
  }
  static int call(uint16_t port, int i, const std::string& words) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    // Half of them come from the peer's own address.
    address.sin_addr.s_addr = htonl(i % 2 == 0 ? INADDR_LOOPBACK : INADDR_LOOPBACK + 1 + i % 7);
    (void)bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    (void)connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
    if (!words.empty()) (void)send(fd, words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return fd;
  }
  int pipe_[2] = {-1, -1};
  bool all_ = false;
  pid_t child_ = -1;
};

struct Polling {
  int calls;                        // of the peer, one after the other
  std::chrono::milliseconds pause;  // between two calls of accept()
  std::chrono::milliseconds limit;  // for the delay of a call; 0: it is only shown
};
void PrintTo(const Polling& polling, std::ostream* to) { *to << polling.pause.count() << " ms"; }

class StrangersTest : public testing::TestWithParam<Polling> {};

TEST_P(StrangersTest, TenThousandKeepNobodyOutAndUseNothingUp) {
  const Polling polling = GetParam();
  const test::Said said;
  LoopConnection loop(4096, "max_qp=2000");
  Context& context = loop.context();
  char handle[kHandleBytes];
  Listener* const listener = *context.listen(loop.device(), handle);
  int most_descriptors = 0;
  const auto connectOnce = [&](char* to) {
    const Clock::time_point begun = Clock::now();
    Clock::time_point next = begun;
    SendConnection* send = nullptr;
    ReceiveConnection* receive = nullptr;
    for (test::Patience patience; send == nullptr || receive == nullptr; patience.again()) {
      if (send == nullptr) send = *context.connect(loop.device(), to, -1);
      if (receive == nullptr && Clock::now() >= next) {
        receive = *Context::accept(*listener);
        most_descriptors = std::max(most_descriptors, openDescriptors());
        next = Clock::now() + polling.pause;
      }
    }
    const auto took = Clock::now() - begun;
    Context::close(send);
    Context::close(receive);
    return took;
  };
  std::string words;
  {
    Middle ear([](const Place&, std::string&) { return true; });  // hears what the strangers repeat
    char through[kHandleBytes];
    std::memcpy(through, handle, sizeof through);
    ear.stepBetween(through);
    connectOnce(through);
    words = ear.said(From::kConnector, 1).substr(0, sizeof(ConnectRequest));
  }
  ASSERT_EQ(words.size(), sizeof(ConnectRequest));
  ListenHandle fields;
  std::memcpy(&fields, handle, sizeof fields);

  const int descriptors = openDescriptors() + 2;  // and the crowd's pipe
  const long resident = residentKb();
  std::vector<Clock::duration> delays;
  {
    Crowd crowd(fields.port, whatStrangersSay(words));
    test::Patience patience;
    for (int call = 0; call < polling.calls; ++call) delays.push_back(connectOnce(handle));
    for (; !crowd.allHaveCalled(); patience.again()) {
      ASSERT_TRUE(Context::accept(*listener).ok());
      most_descriptors = std::max(most_descriptors, openDescriptors());
      usleep(1000);
    }
  }
  std::sort(delays.begin(), delays.end());
  const Clock::duration middle = delays[(delays.size() - 1) / 2];
  const auto ms = [](Clock::duration time) {
    return std::chrono::duration<double, std::milli>(time).count();
  };
  std::printf("delay of the peer %.1f ms, at most %.1f ms, %d more descriptors, %ld KiB more memory\n",
              ms(middle), ms(delays.back()), most_descriptors - descriptors, residentKb() - resident);
  EXPECT_LE(most_descriptors - descriptors, 32 + 8) << "32 strangers, and what the peer's connection has";
  // The sanitizer keeps what was freed.
  if (!test::kAddressSanitizer) EXPECT_LE(residentKb() - resident, 16 << 10);
  if (polling.limit.count() > 0) EXPECT_LT(middle, polling.limit);  // a busy machine may stop any call
  const std::string warnings = said.warnings();
  EXPECT_EQ(std::count(warnings.begin(), warnings.end(), '\n'), 1) << warnings;
  EXPECT_HAS(warnings, "a stranger called");
  for (int i = 0; i < 1000 && openDescriptors() > descriptors; ++i)
    ASSERT_TRUE(Context::accept(*listener).ok());
  EXPECT_LE(openDescriptors(), descriptors) << "strangers that have hung up hold descriptors";
  Context::close(listener);
}
using namespace std::chrono_literals;
INSTANTIATE_TEST_SUITE_P(Polled, StrangersTest, testing::Values(Polling{10, 0ms, 0ms}));
INSTANTIATE_TEST_SUITE_P(FullPolled, StrangersTest,
                         testing::Values(Polling{30, 0ms, 1s}, Polling{10, 10ms, 1s}, Polling{2, 50ms, 1s}));

// A stranger that says a few bytes and then nothing has 30 s. A campaign, as it takes that long.
class SilentStranger : public testing::TestWithParam<std::size_t> {};

TEST_P(SilentStranger, IsDroppedAfterThirtySeconds) {
  const test::Said said;
  LoopConnection loop(4096);
  char handle[kHandleBytes];
  Listener* const listener = *loop.context().listen(loop.device(), handle);
  ListenHandle fields;
  std::memcpy(&fields, handle, sizeof fields);
  Result<Socket> stranger = Socket::connect(handleAddresses(fields).front());
  ASSERT_OK(stranger);
  test::waitUntil([&] { return *stranger->connected() == Io::kDone; });
  ConnectRequest request = makeMessage<ConnectRequest>(MessageType::kRequest);
  Transfer some = {std::as_writable_bytes(std::span(&request, 1)).first(GetParam()), 0};
  ASSERT_EQ(*stranger->send(some), Io::kDone);
  const Clock::time_point begun = Clock::now();
  while (stranger->peek() != Io::kClosed && Clock::now() - begun < 100s) {
    ASSERT_TRUE(Context::accept(*listener).ok());
    usleep(10'000);
  }
  EXPECT_GT(Clock::now() - begun, 29s);
  EXPECT_EQ(stranger->peek(), Io::kClosed);
  EXPECT_HAS(said.warnings(), "says nothing");
  Context::close(listener);
}
INSTANTIATE_TEST_SUITE_P(Campaign, SilentStranger, testing::Values(4, sizeof(MessageHeader) + 4));

}  // namespace
}  // namespace railwise::net
