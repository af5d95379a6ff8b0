// Ranks that are processes: each puts to all others and waits for their signals.
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "rma_api.h"

namespace railwise::test {
namespace {

template <typename A>
class RmaProcessesTest : public testing::Test {};
TYPED_TEST_SUITE(RmaProcessesTest, AllRmaVersions, VersionName);

constexpr int kRanks = 3;
constexpr size_t kBytes = 40'000;
constexpr uint64_t kRounds = 20;
using Handles = std::array<std::array<char, NCCL_NET_HANDLE_MAXSIZE>, kRanks>;

bool readAll(int fd, void* to, size_t bytes) {
  return recv(fd, to, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
}
bool writeAll(int fd, const void* from, size_t bytes) {
  return send(fd, from, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
}

// The life of rank `me`; `bootstrap` leads to the test, which is NCCL's bootstrap network. Ends with the
// number of failures.
template <typename A>
int liveAs(int me, int bootstrap) {
  RmaRank<A> rank;
  Handle handle;
  Handles handles;
  rank.listen(handle);
  EXPECT_TRUE(writeAll(bootstrap, handle.bytes(), NCCL_NET_HANDLE_MAXSIZE));
  EXPECT_TRUE(readAll(bootstrap, handles.data(), sizeof handles));
  std::vector<void*> all;
  for (auto& each : handles) all.push_back(each.data());
  rank.connect(all, me);
  rank.add((kRanks + 1) * kBytes, me);
  rank.add(kRanks * 8, 0, NCCL_NET_MR_FLAG_FORCE_SO | NCCL_NET_MR_FLAG_SIGNAL_NEVER_RESET);
  rank.part(1).clear();
  // All have registered before the first put.
  char word = 'r';
  EXPECT_TRUE(writeAll(bootstrap, &word, 1) && readAll(bootstrap, &word, 1));
  for (uint64_t round = 1; round <= kRounds && !testing::Test::HasFailure(); ++round) {
    std::vector<void*> requests;
    for (int to = 0; to < kRanks; ++to) {
      const Signal signal = {{rank.part(1).window, 8 * static_cast<uint64_t>(me)}};
      requests.push_back(rank.put(0, 0, kBytes, kBytes * static_cast<size_t>(me + 1), to, &signal));
    }
    for (void* request : requests)
      for (Patience patience; !rank.done(request); patience.again()) rank.progress();
    for (int source = 0; source < kRanks; ++source) {
      const auto slot = static_cast<size_t>(source);
      for (Patience patience; rank.part(1).signal(slot) < round; patience.again()) rank.progress();
      EXPECT_EQ(rank.part(0).wrong(source, kBytes, kBytes * (slot + 1)), 0U);
    }
  }
  // Nobody ends before all are done: others may need this rank's progress.
  EXPECT_TRUE(writeAll(bootstrap, &word, 1));
  pollfd go = {bootstrap, POLLIN, 0};
  for (Patience patience; poll(&go, 1, 0) == 0; patience.again()) rank.progress();
  for (int i = 0; i < 200; ++i) rank.progress();
  for (size_t source = 0; source < kRanks; ++source) EXPECT_EQ(rank.part(1).signal(source), kRounds);
  EXPECT_EQ(warnings(), "");
  rank.end();
  return testing::Test::HasFailure() ? 1 : 0;
}

TYPED_TEST(RmaProcessesTest, AllPutToAll) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE(
      "with real devices all tests share a process, whose children touch no device");
  useDevice();  // the fabric is the test's, for all its processes
  clearLog();
  std::array<int, kRanks> sockets;
  std::array<pid_t, kRanks> children;
  for (int me = 0; me < kRanks; ++me) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    children[static_cast<size_t>(me)] = fork();
    if (children[static_cast<size_t>(me)] == 0) {
      endInTwoMinutes();
      close(ends[0]);
      int failures = 1;
      try {
        failures = liveAs<TypeParam>(me, ends[1]);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n%s", me, error.what(), warnings().c_str());
      }
      std::fflush(nullptr);
      _exit(failures);
    }
    close(ends[1]);
    sockets[static_cast<size_t>(me)] = ends[0];
  }
  Handles handles = {};
  for (size_t i = 0; i < kRanks; ++i) EXPECT_TRUE(readAll(sockets[i], &handles[i], NCCL_NET_HANDLE_MAXSIZE));
  for (const int socket : sockets) EXPECT_TRUE(writeAll(socket, &handles, sizeof handles));
  for (int barrier = 0; barrier < 2; ++barrier) {
    char word = 0;
    for (const int socket : sockets) EXPECT_TRUE(readAll(socket, &word, 1));
    for (const int socket : sockets) EXPECT_TRUE(writeAll(socket, &word, 1));
  }
  for (const pid_t child : children) {
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  for (const int socket : sockets) close(socket);
}

}  // namespace
}  // namespace railwise::test
