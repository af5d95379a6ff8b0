// Asynchronous events: which arrive, in what order, and what destroying an object means for them.
#include "softdev/fabric/events.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "softdev/endpoint.h"
#include "softdev/queues/objects.h"
#include "tests/wait.h"

namespace railwise::softdev::test {
namespace {

bool readable(const ibv_context* context) {
  pollfd poller{context->async_fd, POLLIN, 0};
  return poll(&poller, 1, 0) == 1;
}

ibv_async_event takeEvent(ibv_context* context) {
  ibv_async_event event{};
  EXPECT_TRUE(readable(context));
  EXPECT_EQ(getAsyncEvent(context, &event), 0);
  ackAsyncEvent(&event);
  return event;
}

void raise(ibv_context* base, ibv_event_type type, uint32_t element) {
  const Context& context = as<Context>(base);
  raiseEvent(*context.fabric, context.index, type, element);
}

TEST(Events, ComeInTheirOrder) {
  const OpenDevice device;
  EXPECT_FALSE(readable(device));
  raise(device, IBV_EVENT_PORT_ERR, 1);
  raise(device, IBV_EVENT_PORT_ACTIVE, 1);
  raise(device, IBV_EVENT_DEVICE_FATAL, 0);
  EXPECT_EQ(takeEvent(device).event_type, IBV_EVENT_PORT_ERR);
  EXPECT_EQ(takeEvent(device).event_type, IBV_EVENT_PORT_ACTIVE);
  EXPECT_EQ(takeEvent(device).event_type, IBV_EVENT_DEVICE_FATAL);
  EXPECT_FALSE(readable(device));
}

TEST(Events, PortEventsReachEveryContext) {
  const OpenDevice device;
  ibv_context* second = openNamed("soft0");
  const Context& context = as<Context>(second);
  raisePortEvent(*context.fabric, context.record->ports[0], IBV_EVENT_GID_CHANGE);
  EXPECT_EQ(takeEvent(device).element.port_num, 1);
  EXPECT_EQ(takeEvent(second).event_type, IBV_EVENT_GID_CHANGE);
  EXPECT_EQ(closeDevice(second), 0);
}

TEST(Events, NonBlockingGivesEagain) {
  const OpenDevice device;
  ibv_context* context = device;
  fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK);
  ibv_async_event event{};
  EXPECT_EQ(getAsyncEvent(context, &event), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(Events, TheOldestOfTooManyGoes) {
  const OpenDevice device;
  for (uint32_t i = 0; i < kMaxEvents + 3; ++i) raise(device, IBV_EVENT_PORT_ERR, i);
  for (uint32_t i = 3; i < kMaxEvents + 3; ++i)
    EXPECT_EQ(takeEvent(device).element.port_num, static_cast<int>(i));
  EXPECT_FALSE(readable(device));
}

TEST(Events, ComeInTheirOrderWhereTheirCountsWrap) {
  const OpenDevice device;
  ContextRecord& record = *as<Context>(static_cast<ibv_context*>(device)).record;
  record.events_head = record.events_tail = UINT32_MAX - 5;
  for (uint32_t i = 0; i < kMaxEvents + 3; ++i) raise(device, IBV_EVENT_PORT_ERR, i);
  for (uint32_t i = 3; i < kMaxEvents + 3; ++i)
    EXPECT_EQ(takeEvent(device).element.port_num, static_cast<int>(i));
  EXPECT_FALSE(readable(device));
  EXPECT_LT(record.events_head.load(), 2 * kMaxEvents);
}

TEST(Events, OverrunOfACompletionQueue) {
  const OpenDevice device;
  Pair pair(device, device, {.cqe = 4}, {});
  for (int i = 0; i < 5; ++i) ASSERT_EQ(pair.a.send({}), 0);
  const ibv_async_event event = takeEvent(device);
  EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event.element.cq, pair.a.cq);
}

TEST(Events, OfAnObjectThatGoesAreDropped) {
  const OpenDevice device;
  {
    Endpoint end(device);
    raise(device, IBV_EVENT_QP_FATAL, end.qp->qp_num & 0xffff);
    raise(device, IBV_EVENT_PORT_ERR, 1);
  }
  EXPECT_EQ(takeEvent(device).event_type, IBV_EVENT_PORT_ERR);
}

TEST(Events, DestroyWaitsForAcknowledgements) {
  const OpenDevice device;
  ibv_async_event event{};
  std::atomic<bool> acknowledged{false};
  std::thread later;
  {
    Endpoint end(device);
    raise(device, IBV_EVENT_QP_FATAL, end.qp->qp_num & 0xffff);
    ASSERT_EQ(getAsyncEvent(device, &event), 0);
    EXPECT_EQ(event.element.qp, end.qp);
    later = std::thread([&] {
      acknowledged.store(true);
      ackAsyncEvent(&event);
    });
  }
  EXPECT_TRUE(acknowledged.load());
  later.join();
}

TEST(Events, ClosingTheDeviceEndsTheWait) {
  const OpenDevice device;  // keeps the fabric attached
  ibv_context* second = openNamed("soft0");
  std::atomic<int> answer{0};
  std::atomic<bool> waits{false};
  std::thread waiter([&] {
    ibv_async_event event{};
    waits.store(true);
    answer.store(getAsyncEvent(second, &event));
  });
  railwise::test::waitUntil([&] { return waits.load(); });
  // There is no way to see that the thread is in the call; both orders end it.
  (void)shutdown(second->async_fd, SHUT_RDWR);
  waiter.join();
  EXPECT_EQ(answer.load(), -1);
  EXPECT_EQ(closeDevice(second), 0);
}

}  // namespace
}  // namespace railwise::softdev::test
