// Who is on a fabric, what the dead leave behind, and locks whose owner died.
#include "softdev/fabric/fabric.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "plugin/sanitizers.h"
#include "said.h"
#include "softdev/control/control.h"
#include "softdev/engine/attachment.h"
#include "softdev/fabric/doorbell.h"
#include "softdev/fabric/events.h"
#include "softdev/fabric/joining/election.h"
#include "softdev/fabric/joining/membership.h"
#include "softdev/fabric/joining/process_table.h"
#include "softdev/fabric/tables.h"
#include "softdev/fault_helpers.h"
#include "softdev/peer_process.h"
#include "softdev/queues/objects.h"
#include "softdev/queues/reclaim.h"
#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise::softdev::test {
namespace {

int usedSlots(const Fabric& fabric) {
  int used = 0;
  for (const ProcessSlot& slot : fabric.segment->processes) used += slot.pid.load() != 0 ? 1 : 0;
  return used;
}

template <typename Record>
int owned(const Record* records, uint32_t count) {
  int total = 0;
  for (uint32_t i = 0; i < count; ++i) total += records[i].owner.load() != 0 ? 1 : 0;
  return total;
}

int qpsIn(const Fabric& fabric) { return owned(fabric.segment->qps, fabric.segment->qps_marks.high_water); }
int mrsIn(const Fabric& fabric) { return owned(fabric.segment->mrs, fabric.segment->mrs_marks.high_water); }
int cqsIn(const Fabric& fabric) { return owned(fabric.segment->cqs, fabric.segment->cqs_marks.high_water); }

bool socketsMention(const std::string& name) {
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    if (line.find("/" + name + "/") != std::string::npos) return true;
  }
  return false;
}

// Lines of the files in /dev/shm that the process has mapped: they would outlive it. (Other processes of the
// user may have files there.)
std::string sharedFilesOf(pid_t pid) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  std::string files;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/dev/shm/") != std::string::npos) files += line + "\n";
  }
  return files;
}

TEST(Fabric, ProcessesMeetByName) {
  const OpenDevice device;
  EXPECT_EQ(usedSlots(fabricOf(device)), 1);
  const PeerProcess same(device.fabric());
  EXPECT_EQ(usedSlots(fabricOf(device)), 2);
  const PeerProcess other(uniqueFabric());
  EXPECT_EQ(usedSlots(fabricOf(device)), 2);
  EXPECT_EQ(listMembers(fabricPrefix(device.fabric())).size(), 2U);
}

TEST(Fabric, SameDeviceInTwoProcessesHasOneLid) {
  const OpenDevice device("link=ib");
  const PeerProcess peer(device.fabric(), {}, "link=ib");
  ibv_port_attr port{};
  ASSERT_EQ(queryPort(device, 1, &port), 0);
  EXPECT_EQ(peer.address().lid, port.lid);
}

// Both would answer to one address, or be one device of two kinds.
TEST(Fabric, AnotherConfigurationIsRefusedInWords) {
  const struct {
    const char* theirs;
    const char* ours;
    const char* difference;
  } kCases[] = {
      {"name=a,gid=10.7.0.1/v2", "name=b,gid=10.7.0.1/v2", "has the address 10.7.0.1 of our b port 1"},
      {"name=a,gid=10.7.0.1/v2", "name=a,gid=10.7.0.2/v2",
       "is RoCE with 10.7.0.1, and ours is RoCE with 10.7.0.2"},
      {"name=a,guid=0x0252570000000001,link=ib", "name=a,guid=0x0252570000000001", "is InfiniBand with "},
      {"link=iwarp,name=a,gid=10.7.0.1", "link=iwarp,name=b,gid=10.7.0.1", "has the address 10.7.0.1"},
  };
  for (const auto& unlike : kCases) {
    const std::string name = uniqueFabric();
    const PeerProcess peer(name, {}, unlike.theirs);
    const railwise::test::Said said;
    EXPECT_THROW(OpenDevice(unlike.ours, name), std::runtime_error) << unlike.ours;
    const std::string text = said.warnings();
    for (const std::string& part : {"process " + std::to_string(peer.pid()) + " (", "uses the fabric " + name,
                                    std::string(unlike.difference), std::string("RAILWISE_FABRIC=NAME")})
      EXPECT_HAS(text, part);
  }
}

TEST(Fabric, TheHolderOfTheLockIsKnownByName) {
  const std::string prefix = fabricPrefix(uniqueFabric());
  EXPECT_EQ(lockHolder(prefix), "a process that cannot be found");
  const auto lock = Election::win(prefix);
  ASSERT_OK(lock);
  EXPECT_EQ(lockHolder(prefix).find("process " + std::to_string(getpid()) + " ("), 0U) << lockHolder(prefix);
  EXPECT_HAS(lockHolder(prefix), "), state ");
}

// A process that has chosen no fabric joins one only with the configuration of its maker.
TEST(Fabric, TheDefaultIsForOneConfiguration) {
  const std::string name = uniqueFabric();
  FabricChoice choice = {.name = name, .named = false, .digest = 1, .configuration = "link=iwarp"};
  {
    const PeerProcess peer(name, {}, "link=ib");
    const railwise::test::Said said;
    EXPECT_EQ(attachFabric(choice).status().sys_errno, EADDRINUSE);
    EXPECT_EQ(attachFabric(choice).status().sys_errno, EADDRINUSE);
    const std::string text = said.warnings();
    for (const std::string& part :
         {"cannot join the fabric " + name + " with RAILWISE_DEVICE=software:link=iwarp",
          "process " + std::to_string(peer.pid()) + " (",
          std::string(") made it with RAILWISE_DEVICE=software:"), std::string("link=ib"),
          std::string("RAILWISE_FABRIC=NAME")})
      EXPECT_HAS(text, part);
    EXPECT_EQ(text.find("cannot join"), text.rfind("cannot join")) << "said twice: " << text;
    choice.named = true;  // what has chosen the fabric may differ
    const auto attached = attachFabric(choice);
    ASSERT_OK(attached);
    detachFabric(*attached);
  }
  choice.named = false;  // the fabric went with its last process, and is made again
  const auto made = attachFabric(choice);
  ASSERT_OK(made);
  EXPECT_EQ((*made)->segment->maker.pid, static_cast<uint32_t>(getpid()));
  detachFabric(*made);
}

TEST(Fabric, AMakerThatHasLeftIsNamedWithOneThatIsThere) {
  const std::string name = uniqueFabric();
  auto maker = std::make_unique<PeerProcess>(name, Options{}, "name=a");
  const PeerProcess other(name, {}, "name=b");
  const std::string gone = "process " + std::to_string(maker->pid()) + " (";
  maker.reset();
  const railwise::test::Said said;
  EXPECT_EQ(attachFabric({.name = name, .named = false, .digest = 1, .configuration = ""}).status().sys_errno,
            EADDRINUSE);
  const std::string text = said.warnings();
  for (const std::string& part : {gone, std::string("), which has ended, made it, and process "),
                                  "and process " + std::to_string(other.pid()) + " ("})
    EXPECT_HAS(text, part);
}

// What a command has changed is no difference of configurations, and neither is a device that the other does
// not have.
TEST(Fabric, WhatACommandHasChangedIsNoOtherConfiguration) {
  const OpenDevice device("name=a,gid=10.7.0.1/v2");
  const auto ports = findPorts(fabricOf(device), "a:1");
  ASSERT_TRUE(ports.ok()) << ports.error();
  ASSERT_EQ(ports->size(), 1U);
  const auto changed = changePort(fabricOf(device), (*ports)[0], "gid=4=10.7.0.9/v2");
  ASSERT_TRUE(changed.ok()) << changed.error();
  const PeerProcess late(device.fabric(), {}, "name=a,gid=10.7.0.1/v2");
  const PeerProcess more(device.fabric(), {}, "name=b,gid=10.7.0.2/v2;name=a,gid=10.7.0.1/v2");
  EXPECT_EQ(usedSlots(fabricOf(device)), 3);
}

TEST(Fabric, ThoseInUseAreKnownByName) {
  const std::string name = uniqueFabric();
  {
    const OpenDevice device("", name);
    EXPECT_TRUE(fabricsInUse().contains(name));
    const PeerProcess peer(name);
    EXPECT_EQ(fabricsInUse().count(name), 1U);
  }
  EXPECT_FALSE(fabricsInUse().contains(name));
}

TEST(Fabric, LastCloseDetaches) {
  std::string name;
  {
    const OpenDevice device;
    name = device.fabric();
    EXPECT_TRUE(socketsMention(name));
  }
  EXPECT_FALSE(socketsMention(name));
}

TEST(Fabric, SegmentOutlivesItsCreator) {
  const std::string name = uniqueFabric();
  auto creator = std::make_unique<PeerProcess>(name);
  const OpenDevice device("", name);
  creator.reset();
  const PeerProcess late(name);
  reclaimDead(fabricOf(device));
  EXPECT_EQ(usedSlots(fabricOf(device)), 2);
}

TEST(Fabric, NothingIsLeftWhenAllAreKilled) {
  const std::string name = uniqueFabric();
  {
    PeerProcess first(name);
    PeerProcess second(name);
    EXPECT_TRUE(socketsMention(name));
    EXPECT_EQ(sharedFilesOf(first.pid()), "");
    first.kill();
    second.kill();
  }
  EXPECT_FALSE(socketsMention(name));
}

TEST(Fabric, WhatTheDeadHadIsReclaimed) {
  const OpenDevice device;
  PeerProcess first(device.fabric());
  const int qps = qpsIn(fabricOf(device));
  const int mrs = mrsIn(fabricOf(device));
  const int cqs = cqsIn(fabricOf(device));
  EXPECT_EQ(qps, 1);
  first.kill();
  const PeerProcess second(device.fabric());  // attaching reclaims
  EXPECT_EQ(usedSlots(fabricOf(device)), 2);
  EXPECT_EQ(qpsIn(fabricOf(device)), qps);
  EXPECT_EQ(mrsIn(fabricOf(device)), mrs);
  EXPECT_EQ(cqsIn(fabricOf(device)), cqs);
}

TEST(Fabric, SendingToTheDeadReclaimsThem) {
  const OpenDevice device;
  PeerProcess peer(device.fabric());
  Endpoint end(device);
  connectEnds(end, peer);
  peer.kill();
  EXPECT_EQ(sendAndWait(end, {.opcode = IBV_WR_RDMA_READ, .length = 8}), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(usedSlots(fabricOf(device)), 1);
  EXPECT_EQ(qpsIn(fabricOf(device)), 1);
}

// The peer dies holding the lock of our queue pair: we take it over.
TEST(Fabric, LockOfAKilledOwnerIsTakenOver) {
  const OpenDevice device;
  Pair pair(device);
  PeerProcess peer(device.fabric());
  peer.lockResponder(pair.b.qp->qp_num);
  peer.kill();
  EXPECT_NE(fabricOf(device).segment->qps[qpIndexOf(pair.b.qp->qp_num)].responder.owner(), 0U);
  *pair.a.word(0) = 4;
  ASSERT_EQ(pair.b.receive(1), 0);
  EXPECT_EQ(sendAndWait(pair.a, {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .length = 8}), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.b.wait().wr_id, 1U);
  EXPECT_EQ(*pair.b.word(0), 4U);
}

// execve() takes all but the process: its locks and records are those of the dead.
TEST(Fabric, ExecutingAnotherProgramIsDeath) {
  const OpenDevice device;
  Pair pair(device);
  PeerProcess peer(device.fabric());
  Endpoint end(device);
  connectEnds(end, peer);
  peer.lockResponder(pair.b.qp->qp_num);
  peer.execute();
  EXPECT_EQ(sendAndWait(end, {.opcode = IBV_WR_RDMA_READ, .length = 8}), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(usedSlots(fabricOf(device)), 1);
  EXPECT_EQ(qpsIn(fabricOf(device)), 3);
  EXPECT_EQ(sendAndWait(pair.a, {.length = 8}), IBV_WC_SUCCESS);
}

// With the number, and mostly the descriptors, of the member that it was.
TEST(Fabric, JoiningAgainAfterExecutingAnotherProgram) {
  const OpenDevice device;
  PeerProcess peer(device.fabric());
  peer.execute();
  peer.start();
  EXPECT_EQ(usedSlots(fabricOf(device)), 2);
  EXPECT_EQ(qpsIn(fabricOf(device)), 1);
  Endpoint end(device);
  connectEnds(end, peer);
  EXPECT_EQ(sendAndWait(end, {.length = 8}), IBV_WC_SUCCESS);
}

// The owner died between completing a receive and taking it off the queue: it is not completed twice.
TEST(Fabric, TakeoverFinishesAHalfDoneReceive) {
  const OpenDevice device;
  Pair pair(device);
  ASSERT_EQ(pair.b.receive(1), 0);
  ASSERT_EQ(pair.b.receive(2), 0);
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM}), 0);
  PeerProcess peer(device.fabric());
  peer.lockResponder(pair.b.qp->qp_num);
  fabricOf(device).segment->qps[qpIndexOf(pair.b.qp->qp_num)].rq_head = 0;  // as before the first completion
  peer.kill();
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM}), 0);
  EXPECT_EQ(pair.b.wait().wr_id, 1U);
  EXPECT_EQ(pair.b.wait().wr_id, 2U);
}

// It is no foreign lock that this process would have to wait for.
TEST(Fabric, WithoutFileDescriptorsALockIsRefusedAtOnce) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(next, 0);
  close(next);
  const std::string prefix = fabricPrefix(uniqueFabric());
  bool won = false;
  for (rlim_t left = 0; left < 32; ++left) {  // there may be several lock files, and each takes one
    const rlimit few{static_cast<rlim_t>(next) + left, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    const auto lock = Election::win(prefix);
    const Status status = lock.ok() ? Status::success() : lock.status();
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    won = status.ok();
    if (!won) EXPECT_EQ(status.sys_errno, EMFILE) << left << " descriptors";
  }
  EXPECT_TRUE(won);
}

TEST(Fabric, ElectionLockOfAKilledOwnerIsFree) {
  const std::string name = uniqueFabric();
  const std::string prefix = fabricPrefix(name);
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const pid_t child = fork();
  if (child == 0) {
    const Result<int> lock = bindName(prefix + "lock");
    char byte = lock.ok() ? 1 : 0;
    if (write(pipes[1], &byte, 1) != 1) _exit(1);
    railwise::test::waitToBeKilled();
  }
  char locked = 0;
  ASSERT_EQ(read(pipes[0], &locked, 1), 1);
  EXPECT_EQ(locked, 1);
  EXPECT_FALSE(bindName(prefix + "lock").ok());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(pipes[0]);
  close(pipes[1]);
  const OpenDevice device("", name);
  EXPECT_EQ(usedSlots(fabricOf(device)), 1);
}

// A forked child that closes what it inherited takes nothing from its parent, and can attach on its own.
TEST(Fabric, ForkedChildForgetsTheAttachment) {
  ASSERT_OK(configure(("fabric=" + uniqueFabric() + ",name=soft0").c_str()));
  ibv_context* context = openNamed("");
  Fabric& fabric = fabricOf(context);
  {
    auto pair = std::make_unique<Pair>(context);
    const pid_t child = fork();
    if (child == 0) {
      railwise::test::endInTwoMinutes();
      pair.reset();
      closeDevice(context);
      ibv_context* own = openNamed("");
      const bool good = usedSlots(fabricOf(own)) == 2 && closeDevice(own) == 0;
      _exit(good ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(usedSlots(fabric), 1);
    EXPECT_EQ(qpsIn(fabric), 2);
    ASSERT_EQ(pair->a.send({.length = 8}), 0);
    EXPECT_EQ(pair->a.wait().status, IBV_WC_SUCCESS);
    raiseQpEvent(fabric, fabric.segment->qps[qpIndexOf(pair->b.qp->qp_num)], IBV_EVENT_QP_FATAL);
    ibv_async_event event{};
    ASSERT_EQ(getAsyncEvent(context, &event), 0);  // the child has not shut its parent's doorbell
    EXPECT_EQ(event.element.qp, pair->b.qp);
    ackAsyncEvent(&event);
  }
  EXPECT_EQ(closeDevice(context), 0);
}

// Other threads hold whatever lock they hold when a process forks: the child can open a device and register
// memory all the same.
TEST(Fabric, AChildForkedInTheMiddleFindsNoLockHeld) {
  if (railwise::test::kAddressSanitizer)
    GTEST_SKIP() << "AddressSanitizer's allocator (LLVM 14) keeps its locks in a forked child";
  constexpr size_t kBytes = 1U << 16;
  const OpenDevice device("name=soft0,mover=remap");
  std::atomic<bool> over{false};
  const auto useDevice = [] {
    ibv_context* const context = openNamed("");
    void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void* const shared = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ibv_pd* const pd = context != nullptr ? allocPd(context) : nullptr;
    bool good = pd != nullptr;
    for (void* const one : {memory, shared}) {
      ibv_mr* const mr =
          good ? regMr(pd, one, kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) : nullptr;
      good = mr != nullptr && deregMr(mr) == 0;
      munmap(one, kBytes);
    }
    return good && deallocPd(pd) == 0 && closeDevice(context) == 0;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!over.load()) EXPECT_TRUE(useDevice());
    });
  }
  for (int i = 0; i < 60; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(30);
      _exit(useDevice() ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "child " << i;
    if (status != 0) break;
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
}

// What fork() does before its handlers run in the child, made to last: the parent leaves the fabric and comes
// back meanwhile.
TEST(Fabric, AChildThatHoldsAnEarlierMarkIsNotInTheWay) {
  const std::string name = uniqueFabric();
  auto device = std::make_unique<OpenDevice>("", name);
  const pid_t child = _Fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    railwise::test::waitToBeKilled();
  }
  for (int i = 0; i < 3; ++i) {
    device.reset();
    device = std::make_unique<OpenDevice>("", name);
    EXPECT_EQ(usedSlots(fabricOf(*device)), 1);
  }
  {
    const PeerProcess peer(name);
    EXPECT_EQ(usedSlots(fabricOf(*device)), 2);
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST(Fabric, PagesAreGivenBack) {
  const OpenDevice device;
  Fabric& fabric = fabricOf(device);
  { const Pair pair(device); }
  const uint32_t before = fabric.segment->pages_marks.high_water;
  for (int i = 0; i < 20; ++i) const Pair pair(device);
  EXPECT_EQ(fabric.segment->pages_marks.high_water, before);
}

TEST(Fabric, AnotherLayoutIsRefused) {
  const OpenDevice device;
  Segment& segment = *fabricOf(device).segment;
  segment.layout_version = kLayoutVersion + 1;
  EXPECT_THROW(PeerProcess(device.fabric()), std::runtime_error);
  segment.layout_version = kLayoutVersion;
}

// Members of layout 9 and before have names without a random number.
TEST(Fabric, AMemberWithAShortNameHasAnotherLayout) {
  const std::string name = uniqueFabric();
  const struct {
    uint64_t magic = kMagic;
    uint32_t version = 9;
    uint32_t reserved = 0;
  } header;
  const int segment = memfd_create("railwise-softdev", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(segment, 4096), 0);
  ASSERT_EQ(pwrite(segment, &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
  ASSERT_EQ(fcntl(segment, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  const auto mark = bindName(fabricPrefix(name) + std::to_string(getpid()) + "." + std::to_string(segment));
  ASSERT_OK(mark);
  FabricChoice choice;
  choice.name = name;
  const railwise::test::Said said;
  const auto attached = attachFabric(choice);
  EXPECT_FALSE(attached.ok());
  EXPECT_EQ(attached.status().sys_errno, EPROTO);
  EXPECT_HAS(said.warnings(), "runs another version of Railwise");
  close(*mark);
  close(segment);
}

// qemu-user answers a process that reads its own /proc/PID/stat, and another process hears of another start.
TEST(Liveness, AnotherProcessSeesTheSameStart) {
  const pid_t self = getpid();
  const uint64_t start = processStartTime(self);
  const pid_t child = fork();
  if (child == 0) _exit(processAlive(self, start) ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// A process that has no file descriptor left cannot look at another, and must not take it for dead.
TEST(Liveness, WithoutFileDescriptorsNobodyIsDead) {
  const uint64_t start = processStartTime(getpid());
  ASSERT_NE(start, 0U);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool alive = processAlive(getpid(), start);
  const bool leaving = processLeaving(getpid(), start);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(alive);
  EXPECT_FALSE(leaving);
  EXPECT_FALSE(processAlive(getpid(), start + 1));
}

}  // namespace
}  // namespace railwise::softdev::test
