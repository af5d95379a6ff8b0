// What both ways to connect queue pairs have in common, with a way that connects nothing.
#include "net/paths/joiner.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "net/paths/failback.h"
#include "net/paths/join_by_manager.h"
#include "record/writer.h"
#include "software_device.h"
#include "tests/ok.h"
#include "verbs/cm/library.h"

namespace railwise::net {
namespace {

const Session kNoSession = {};

class FakeJoiner final : public Joiner {
 public:
  FakeJoiner(Direction direction, const Config& config) : Joiner(direction, config, kNoSession) {}
  using Joiner::pairingOf;

  bool needsCall() const override { return false; }
  Result<verbs::GidList> addressesOf(const Rail&) const override { return verbs::GidList{}; }
  Result<bool> join(std::size_t index, const Ends& ends) override {
    asked.push_back(index);
    if (const auto found = refused.find(index); found != refused.end()) return found->second;
    ends.endpoint.queue_pairs[index].rest->connected = !later[index];
    return !later[index];
  }
  bool callTrial(TrialQueuePair&, const Ends&, const Path&, uint64_t) const override { return false; }
  Result<uint16_t> answerTrial(TrialQueuePair&, const Ends&, const Path&, uint64_t) const override {
    return Status{Code::kSystem, EIO};
  }

  std::vector<std::size_t> asked;
  std::map<std::size_t, Status> refused;
  std::map<std::size_t, bool> later;
};

class JoinerTest : public testing::Test {
 protected:
  JoinerTest() : memory_(record::PageMemory::allocate(QueuePairs::kBytes)) {
    endpoint_ = std::make_unique<Endpoint>(memory_, std::vector<Rail>{}, std::vector<Rail>{});
    for (int i = 0; i < 3; ++i) endpoint_->queue_pairs.add();
  }
  ~JoinerTest() override {
    endpoint_.reset();
    record::PageMemory::free(memory_, QueuePairs::kBytes);
  }
  LaneQueuePair& queue_pair(std::size_t index) { return endpoint_->queue_pairs[index]; }
  Joiner::Ends ends() { return {1, *endpoint_, local_, remote_}; }

  const Config config_;
  FakeJoiner joiner_{Direction::kSend, config_};
  EndInfo local_ = {};
  EndInfo remote_ = {};
  std::size_t failed_ = 99;

 private:
  void* const memory_;
  std::unique_ptr<Endpoint> endpoint_;
};

TEST_F(JoinerTest, AsksOnlyForQueuePairsThatAreUsedAndNotUp) {
  queue_pair(1).rest->used = false;
  joiner_.later[2] = true;
  Result<bool> all = joiner_.joinAll(ends(), &failed_);
  ASSERT_TRUE(all.ok());
  EXPECT_FALSE(*all);
  EXPECT_EQ(joiner_.asked, (std::vector<std::size_t>{0, 2}));
  joiner_.later[2] = false;
  all = joiner_.joinAll(ends(), &failed_);
  ASSERT_TRUE(all.ok());
  EXPECT_TRUE(*all);
  EXPECT_EQ(joiner_.asked, (std::vector<std::size_t>{0, 2, 2}));
}

TEST_F(JoinerTest, NamesTheQueuePairThatCannotJoin) {
  joiner_.refused[1] = {Code::kSystem, ETIMEDOUT};
  const Result<bool> all = joiner_.joinAll(ends(), &failed_);
  EXPECT_EQ(all.status().sys_errno, ETIMEDOUT);
  EXPECT_EQ(failed_, 1U);
}

TEST_F(JoinerTest, TheAnsweringEndHasThePairing) {
  queue_pair(0).rail = 1;
  queue_pair(0).peer_rail = 2;
  local_.queue_pair[0].gid = 3;
  local_.queue_pair[0].peer_gid = 4;
  remote_.queue_pair[0].gid = 5;
  remote_.queue_pair[0].peer_gid = 6;
  const Joiner::Path sends = joiner_.pairingOf(0, ends());
  EXPECT_EQ(sends.local_rail, 1U);
  EXPECT_EQ(sends.remote_rail, 2U);
  EXPECT_EQ(sends.local_gid, 6U);
  EXPECT_EQ(sends.remote_gid, 5U);
  const Joiner::Path receives = FakeJoiner(Direction::kReceive, config_).pairingOf(0, ends());
  EXPECT_EQ(receives.local_gid, 3U);
  EXPECT_EQ(receives.remote_gid, 4U);
}

int g_events_asked_for = 0;

// The manager has no event.
int noEvent(rdma_event_channel*, rdma_cm_event**) {
  ++g_events_asked_for;
  errno = EAGAIN;
  return -1;
}

// Called again and again: nothing tells a receiver of the call.
TEST(JoinByManager, ATrialThatNobodyHasCalledAsksTheManagerOnce) {
  const test::SoftwareDevice device("gid=10.9.0.1/v2");
  const Result<DeviceList> list = discoverDevices(device.config());
  ASSERT_OK(list);
  const Rail& rail = list->devices.front()->rails().front();
  JoinByManager joiner(Direction::kReceive, device.config(), kNoSession, false);
  const Result<verbs::GidList> addresses = joiner.addressesOf(rail);
  ASSERT_OK(addresses);
  auto endpoint = Endpoint(nullptr, {}, {});
  EndInfo local = {};
  std::memcpy(local.rail[0].gids[0], (*addresses)[0].value.raw, sizeof(ibv_gid));
  TrialQueuePair trial;
  trial.rail = rail;
  ASSERT_OK(joiner.answerTrial(trial, {1, endpoint, local, {}}, {}, 7));
  auto& manager = const_cast<verbs::CmLibrary&>(verbs::cmLibraryInUse());
  const auto get_cm_event = std::exchange(manager.get_cm_event, noEvent);
  const Result<bool> up = joiner.advanceTrial(trial);
  manager.get_cm_event = get_cm_event;
  ASSERT_OK(up);
  EXPECT_FALSE(*up);
  EXPECT_EQ(g_events_asked_for, 1);
}

}  // namespace
}  // namespace railwise::net
