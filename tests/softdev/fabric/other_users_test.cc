// What other users of the machine can do to a fabric: they see all names, can bind any that is free, and can
// send to any.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "base/clock.h"
#include "said.h"
#include "softdev/engine/attachment.h"
#include "softdev/fabric/doorbell.h"
#include "softdev/fabric/events.h"
#include "softdev/fabric/joining/election.h"
#include "softdev/fabric/joining/membership.h"
#include "softdev/forbid_call.h"
#include "softdev/peer_process.h"
#include "softdev/queues/objects.h"
#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise::softdev::test {
namespace {

using railwise::test::Said;

constexpr uid_t kStranger = 65534;
constexpr uid_t kVictim = 65533;

// A process of another user. It runs `body`, which returns true if all went well, and stays until the end.
class ProcessOf {
 public:
  ProcessOf(uid_t user, const std::function<bool()>& body) {
    int pipes[2];
    if (pipe(pipes) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      railwise::test::endInTwoMinutes();
      char answer = 0;
      try {
        answer = setgid(user) == 0 && setuid(user) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0 && body() ? 1 : 0;
      } catch (const std::exception&) {  // a device could not be opened
      }
      if (write(pipes[1], &answer, 1) != 1) _exit(1);
      railwise::test::waitToBeKilled();
    }
    close(pipes[1]);
    char answer = 0;
    good_ = read(pipes[0], &answer, 1) == 1 && answer == 1;
    close(pipes[0]);
  }
  ~ProcessOf() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  ProcessOf(const ProcessOf&) = delete;
  ProcessOf& operator=(const ProcessOf&) = delete;
  bool good() const { return good_; }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  bool good_ = false;
};

// The prefix that the fabric has for `user`.
std::string prefixFor(uid_t user, const std::string& fabric) {
  const std::string ours = "railwise/" + std::to_string(geteuid()) + "/";
  return "railwise/" + std::to_string(user) + "/" + fabricPrefix(fabric).substr(ours.size());
}

bool bindAll(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (!bindName(name).ok()) return false;
  }
  return true;
}

// A listener that never accepts, and whose queue of callers is full.
bool bindFull(const std::string& name) {
  sockaddr_un address{};
  const socklen_t length = abstractAddress(name, &address);
  const int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), length) != 0 || listen(listener, 0) != 0)
    return false;
  for (;;) {
    const int caller = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    if (connect(caller, reinterpret_cast<const sockaddr*>(&address), length) != 0) return errno == EAGAIN;
  }
}

// Opens and closes a device on the fabric. True if that worked, and took less than five seconds.
bool joinsAtOnce(const std::string& fabric) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(5));
  if (!configure(("fabric=" + fabric + ",name=soft0").c_str()).ok()) return false;
  ibv_context* const context = openNamed("");
  return context != nullptr && closeDevice(context) == 0 && !deadline.passed();
}

// From then on the kernel gives this process no random numbers.
bool forbidRandomNumbers() {
  char byte = 0;
  return forbidCall(SYS_getrandom, EPERM) && getrandom(&byte, 1, 0) < 0;
}

// A name whose line in /proc/net/unix looks like two: the second says that a socket has the name `wanted`.
std::string forge(const std::string& wanted) { return "x\n0: 0 0 0 0 0 7 @" + wanted; }

// From then on the kernel does not tell this process whose a socket is.
bool forbidNetlink() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(program), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0 &&
         socket(AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG) < 0;
}

void sendTo(const std::string& name, const void* bytes, size_t count) {
  sockaddr_un address{};
  const socklen_t length = abstractAddress(name, &address);
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(sendto(fd, bytes, count, MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&address), length),
            static_cast<ssize_t>(count));
  close(fd);
}

// Its datagrams came as the end of the file: the device had failed.
TEST(OtherUsers, DatagramsToADoorbellAreNothing) {
  const OpenDevice device;
  ibv_context* const context = device;
  const Fabric& fabric = *as<Context>(context).fabric;
  const std::vector<NamedSocket> bells = listNames(fabric.prefix + "bell/");
  ASSERT_FALSE(bells.empty());
  const uint64_t wrong = ~fabric.segment->identity;
  const uint64_t half_wrong = fabric.segment->identity ^ (uint64_t{1} << 40);
  for (int round = 0; round < 20; ++round) {  // more than the queue of a socket takes
    for (const NamedSocket& bell : bells) {
      sendTo(bell.name, nullptr, 0);
      sendTo(bell.name, "x", 1);
      sendTo(bell.name, &wrong, sizeof wrong);
      sendTo(bell.name, &half_wrong, sizeof half_wrong);
    }
  }
  pollfd readable{context->async_fd, POLLIN, 0};
  EXPECT_EQ(poll(&readable, 1, 0), 0);
  Endpoint end(device);
  raiseQpEvent(fabric, fabric.segment->qps[qpIndexOf(end.qp->qp_num)], IBV_EVENT_QP_FATAL);
  EXPECT_EQ(poll(&readable, 1, 0), 1);
  ibv_async_event event{};
  ASSERT_EQ(getAsyncEvent(context, &event), 0);
  EXPECT_EQ(event.element.qp, end.qp);
  ackAsyncEvent(&event);
}

// Who sees the name of one doorbell does not know that of the next.
TEST(OtherUsers, DoorbellsHaveNamesThatNobodyCanGuess) {
  const OpenDevice device;
  const Fabric& fabric = *as<Context>(static_cast<ibv_context*>(device)).fabric;
  Doorbell first;
  Doorbell second;
  ASSERT_OK(first.open(fabric));
  ASSERT_OK(second.open(fabric));
  EXPECT_GT(std::max(first.id(), second.id()) - std::min(first.id(), second.id()), 1024U);
  ring(fabric, fabric.self.token, second.id());
  EXPECT_TRUE(second.pending());
  EXPECT_FALSE(first.pending());
}

TEST(OtherUsers, TheLockOfAFabricIsNotTheirs) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user too";
  const std::string fabric = uniqueFabric();
  const std::string prefix = fabricPrefix(fabric);
  const ProcessOf stranger(kStranger, [&] { return bindAll({prefix + "lock"}); });
  ASSERT_TRUE(stranger.good());
  const Deadline deadline = Deadline::after(std::chrono::seconds(5));
  {
    const OpenDevice device("", fabric);
    const PeerProcess peer(fabric);
    EXPECT_EQ(listMembers(prefix).size(), 2U);
  }
  EXPECT_FALSE(deadline.passed());
  // The lock still excludes: the child says so before it lets go.
  int pipes[2];
  ASSERT_EQ(pipe2(pipes, O_NONBLOCK), 0);
  int held[2];
  ASSERT_EQ(pipe(held), 0);
  const pid_t child = fork();
  if (child == 0) {
    {
      const auto lock = Election::win(prefix);
      if (!lock.ok() || write(held[1], "x", 1) != 1) _exit(1);
      usleep(200'000);
      if (write(pipes[1], "x", 1) != 1) _exit(1);
    }
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(held[0], &byte, 1), 1);
  EXPECT_EQ(lockHolder(prefix).find("process " + std::to_string(child) + " ("), 0U) << lockHolder(prefix);
  const auto lock = Election::win(prefix);
  ASSERT_OK(lock);
  EXPECT_EQ(read(pipes[0], &byte, 1), 1) << "two processes hold the lock";
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (const int fd : {pipes[0], pipes[1], held[0], held[1]}) close(fd);
}

// Where the kernel does not say whose the names are.
TEST(OtherUsers, AreKeptOutWithoutTheKernelsHelp) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user too";
  for (const uid_t victim : {uid_t{0}, kVictim}) {
    const std::string fabric = uniqueFabric();
    const std::string prefix = prefixFor(victim, fabric);
    const ProcessOf stranger(kStranger, [&] {
      return bindAll({prefix + "lock", memberName(prefix, {getppid(), 3, 7}),
                      memberName(prefix, {getpid(), 3, 7})}) &&
             bindFull(prefix + "agent/" + std::to_string(getpid()) + ".5");
    });
    ASSERT_TRUE(stranger.good());
    const ProcessOf user(victim, [&] { return forbidNetlink() && joinsAtOnce(fabric); });
    EXPECT_TRUE(user.good()) << "user " << victim;
  }
}

// Then only the name is left, and the other user is named.
TEST(OtherUsers, WithoutAFileTheLockIsTheirs) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user too";
  const std::string prefix = fabricPrefix(uniqueFabric());
  const ProcessOf stranger(kStranger, [&] { return bindAll({prefix + "lock"}); });
  ASSERT_TRUE(stranger.good());
  constexpr int kNoMounts = 7;
  const pid_t child = fork();
  if (child == 0) {
    railwise::test::endInTwoMinutes();
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", "/dev/shm", "tmpfs", MS_RDONLY, nullptr) != 0)
      _exit(kNoMounts);
    const Said said;
    const Deadline deadline = Deadline::after(std::chrono::seconds(5));
    const bool refused = !Election::win(prefix).ok() && !deadline.passed();
    const bool named = said.warnings().find("user 65534 has bound the name of its lock") != std::string::npos;
    const bool others = Election::win(prefix + "another").ok();
    _exit(refused && named && others ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoMounts) GTEST_SKIP() << "this container may not mount";
  EXPECT_EQ(status, 0);
}

// Without the name of another user too, the file is locked.
TEST(OtherUsers, TheLockIsAFileAndAName) {
  const std::string prefix = fabricPrefix(uniqueFabric());
  const auto lock = Election::win(prefix);
  ASSERT_OK(lock);
  EXPECT_FALSE(bindName(prefix + "lock").ok());
  EXPECT_EQ(lockHolder(prefix).find("process " + std::to_string(getpid()) + " ("), 0U) << lockHolder(prefix);
}

TEST(OtherUsers, NamesThatTheyBindAreNoMembers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user too";
  for (const uid_t victim : {uid_t{0}, kVictim}) {
    const std::string fabric = uniqueFabric();
    const std::string prefix = prefixFor(victim, fabric);
    // A process of the victim that the victim may not look into, and that is on no fabric.
    const ProcessOf closed(victim, [] { return prctl(PR_SET_DUMPABLE, 0) == 0; });
    ASSERT_TRUE(closed.good());
    const ProcessOf stranger(kStranger, [&] {
      const int file = memfd_create("theirs", MFD_ALLOW_SEALING);
      (void)fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
      return bindAll({memberName(prefix, {1, 3, 7}), memberName(prefix, {getpid(), file, 7}),
                      memberName(prefix, {closed.pid(), 3, 7}), memberName(prefix, {getppid(), 3, 7})}) &&
             bindFull(prefix + "agent/1.5") &&
             bindFull(prefix + "agent/" + std::to_string(closed.pid()) + ".5");
    });
    ASSERT_TRUE(stranger.good());
    const ProcessOf user(victim, [&] { return joinsAtOnce(fabric); });
    EXPECT_TRUE(user.good()) << "user " << victim;
  }
}

// A thousand names, and each takes time if somebody is asked for it.
TEST(OtherUsers, ManyNamesTakeNoTime) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user too";
  const std::string fabric = uniqueFabric();
  const std::string prefix = prefixFor(kVictim, fabric);
  const ProcessOf stranger(kStranger, [&] {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
    const int names = static_cast<int>(std::min<rlim_t>(limit.rlim_cur - 100, 500));
    for (int i = 0; i < names; ++i) {
      if (!bindAll({memberName(prefix, {getpid(), 3, static_cast<uint32_t>(i)})})) return false;
    }
    return bindFull(prefix + "agent/" + std::to_string(getpid()) + ".5");
  });
  ASSERT_TRUE(stranger.good());
  const ProcessOf user(kVictim, [&] { return joinsAtOnce(fabric); });
  EXPECT_TRUE(user.good());
}

// A member that is closed to its own user hands its segment out by its agent, whatever others bind beside it.
TEST(OtherUsers, AMembersAgentIsFoundAmongTheirs) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user too";
  const std::string fabric = uniqueFabric();
  const std::string prefix = prefixFor(kVictim, fabric);
  const ProcessOf member(kVictim, [&] {
    if (prctl(PR_SET_DUMPABLE, 0) != 0) return false;
    return configure(("fabric=" + fabric + ",name=soft0").c_str()).ok() && openNamed("") != nullptr;
  });
  ASSERT_TRUE(member.good());
  const ProcessOf stranger(kStranger, [&] {
    return bindFull(prefix + "agent/" + std::to_string(member.pid()) + ".0") &&
           bindFull(prefix + "agent/" + std::to_string(member.pid()) + ".5");
  });
  ASSERT_TRUE(stranger.good());
  const ProcessOf user(kVictim, [&] {
    return joinsAtOnce(fabric) && configure(("fabric=" + fabric + ",name=soft0").c_str()).ok() &&
           openNamed("") != nullptr && listMembers(prefix).size() == 2;
  });
  EXPECT_TRUE(user.good());
  // Root may open everything, and is on a fabric of its own.
  EXPECT_TRUE(joinsAtOnce(fabric));
}

// The kernel says that no socket has the inode of the forged line.
TEST(OtherUsers, AForgedLineIsNoSocket) {
  const std::string fabric = uniqueFabric();
  const std::string prefix = fabricPrefix(fabric);
  const Result<int> forged = bindName(forge(memberName(prefix, {getpid(), 3, 7})));
  ASSERT_OK(forged);
  const std::vector<MemberName> members = listMembers(prefix);
  ASSERT_EQ(members.size(), 1U);
  const Result<int> ours = bindName(memberName(prefix, {getpid(), 3, 8}));
  ASSERT_OK(ours);
  for (const MemberName& named : listMembers(prefix)) {
    if (named.member.number == 8 && !userOf(named.socket)) GTEST_SKIP() << "this kernel names no owner";
    EXPECT_EQ(foreign(named.socket), named.member.number == 7) << named.socket.name;
  }
  close(*ours);
  EXPECT_EQ(userOf(members.front().socket), kNoUser);
  EXPECT_FALSE(fabricsInUse().contains(fabric));
  close(*forged);
}

// Where the kernel does not say that: a forged name of a fabric leads to the segment of another.
TEST(OtherUsers, AForgedLineLeadsToNoOtherFabric) {
  const OpenDevice device;
  const Fabric& fabric = *as<Context>(static_cast<ibv_context*>(device)).fabric;
  const std::vector<MemberName> members = listMembers(fabric.prefix);
  ASSERT_EQ(members.size(), 1U);
  const std::string another = uniqueFabric();
  const Result<int> forged = bindName(forge(memberName(fabricPrefix(another), members.front().member)));
  ASSERT_OK(forged);
  const uint64_t identity = fabric.segment->identity;
  const pid_t child = fork();
  if (child == 0) {
    railwise::test::endInTwoMinutes();
    FabricChoice choice;
    choice.name = another;
    if (!forbidNetlink() || listMembers(fabricPrefix(another)).size() != 1) _exit(2);
    const auto attached = attachFabric(choice);
    _exit(attached.ok() && (*attached)->segment->identity != identity ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  close(*forged);
}

TEST(OtherUsers, RandomNumbersComeWithoutTheKernel) {
  const std::string fabric = uniqueFabric();
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    if (!forbidRandomNumbers()) _exit(2);
    _exit(randomNumber() != randomNumber() && joinsAtOnce(fabric) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// The kernel would end the application by a signal.
TEST(OtherUsers, ALimitOfFileSizesIsNamed) {
  const std::string fabric = uniqueFabric();
  const pid_t child = fork();
  if (child == 0) {
    railwise::test::endInTwoMinutes();
    const rlimit small{1U << 20, 1U << 20};
    if (setrlimit(RLIMIT_FSIZE, &small) != 0) _exit(2);
    const Said said;
    FabricChoice choice;
    choice.name = fabric;
    const auto attached = attachFabric(choice);
    const bool named = said.warnings().find("RLIMIT_FSIZE allows files of 0.0 GiB: raise it (ulimit -f") !=
                       std::string::npos;
    _exit(!attached.ok() && attached.status().sys_errno == EFBIG && named ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace railwise::softdev::test
