#include "net/profiler.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace railwise::net {
namespace {

struct Call {
  int type;
  void* parent;
  void* event;
  int64_t id;
  profiler::Event data;
  bool has_data;
};
std::vector<Call> g_calls;
void* g_answer = nullptr;  // the profiler's handle of an event; null: it does not want it

int keep(void** event, int type, void* parent, int64_t id, void* data) {
  Call call = {type, parent, *event, id, {}, data != nullptr};
  if (data != nullptr) std::memcpy(&call.data, data, sizeof call.data);
  g_calls.push_back(call);
  if (type == profiler::kStart) *event = g_answer;
  return 1;  // an error of the profiler: not ours
}

class ProfilerTest : public testing::Test {
 protected:
  ProfilerTest() {
    g_calls.clear();
    g_answer = &wanted_;
    profiler::setCallback(keep);
  }
  ~ProfilerTest() override { profiler::setCallback(nullptr); }

  int parent_ = 0;
  int wanted_ = 0;
  const profiler::Event event_ = {
      .kind = RAILWISE_PROFILER_SEND, .device = 1, .qp_number = 77, .bytes = 4096};
};

TEST_F(ProfilerTest, AnEventStartsAndStops) {
  void* const handle = profiler::start(&parent_, event_);
  EXPECT_EQ(handle, &wanted_);
  profiler::stop(handle);
  ASSERT_EQ(g_calls.size(), 2U);
  EXPECT_EQ(g_calls[0].type, profiler::kStart);
  EXPECT_EQ(g_calls[0].parent, &parent_);
  EXPECT_EQ(g_calls[0].event, nullptr) << "NCCL leaves it as it is when nobody listens";
  EXPECT_TRUE(RAILWISE_PROFILER_IS_V1(g_calls[0].id));
  EXPECT_EQ(g_calls[0].data.qp_number, 77U);
  EXPECT_EQ(g_calls[1].type, profiler::kStop);
  EXPECT_EQ(g_calls[1].event, &wanted_);
  EXPECT_FALSE(g_calls[1].has_data);
}

TEST_F(ProfilerTest, TheEndMayTellMore) {
  void* const handle = profiler::start(&parent_, event_);
  profiler::Event update = event_;
  update.bytes = 5;
  profiler::stop(handle, update);
  ASSERT_EQ(g_calls.size(), 2U);
  EXPECT_EQ(g_calls[1].type, profiler::kUpdateAndStop);
  EXPECT_EQ(g_calls[1].data.bytes, 5U);
}

TEST_F(ProfilerTest, WithoutAHandleNothingIsCalled) {
  profiler::stop(profiler::start(nullptr, event_));
  profiler::stop(nullptr, event_);
  EXPECT_TRUE(g_calls.empty());
}

TEST_F(ProfilerTest, WhatNobodyWantsHasNoEnd) {
  g_answer = nullptr;
  profiler::stop(profiler::start(&parent_, event_));
  EXPECT_EQ(g_calls.size(), 1U);
}

TEST_F(ProfilerTest, WithoutACallbackThereIsNoEvent) {
  profiler::setCallback(nullptr);
  EXPECT_EQ(profiler::start(&parent_, event_), nullptr);
}

TEST(ProfilerEvent, ItsLayoutIsTheContract) {
  static_assert(sizeof(profiler::Event) == 40 && alignof(profiler::Event) == 8);
  static_assert(offsetof(profiler::Event, tag) == 20 && offsetof(profiler::Event, bytes) == 32);
  EXPECT_EQ(RAILWISE_PROFILER_TYPE & 0xffff, 0) << "the version's bits";
}

}  // namespace
}  // namespace railwise::net
