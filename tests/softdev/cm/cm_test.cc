// The connection manager within one process: events, private data, refusals, on every link.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <set>
#include <thread>

#include "softdev/cm_end.h"

namespace railwise::softdev::test {
namespace {

class CmLink : public testing::TestWithParam<const char*> {
 protected:
  CmLink() : device("link=" + std::string(GetParam()) + ",count=2"), other(openNamed("soft1")) {}
  ~CmLink() override { closeDevice(other); }
  bool iwarp() const { return std::string_view(GetParam()) == "iwarp"; }
  // What the receiver sees of private data.
  std::string padded(std::string data, size_t bytes) const {
    if (!iwarp()) data.resize(bytes, '\0');
    return data;
  }

  OpenDevice device;
  ibv_context* other;
  CmChannel calls;
  CmChannel listens;
};
INSTANTIATE_TEST_SUITE_P(Links, CmLink, testing::Values("roce", "ib", "iwarp"),
                         [](const auto& suite) { return std::string(suite.param); });

TEST_P(CmLink, ConnectsQueuePairsOfTheProgram) {
  Endpoint a(other);
  Endpoint b(device);
  ASSERT_EQ(a.toInit(), 0);
  ASSERT_EQ(b.toInit(), 0);
  CmId listener = listenOn(listens, device);
  ASSERT_NE(portOf(listener), 0);
  CmId caller = calling(calls, other, cmAddress(device, portOf(listener)), parameters("hello", a.qp->qp_num));
  const CmEvent request = listens.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(request.listener, listener);
  EXPECT_EQ(request.private_data, padded("hello", 56));
  EXPECT_EQ(request.conn.qp_num, a.qp->qp_num);
  CmId accepted(request.id);
  EXPECT_EQ(std::memcmp(&accepted->route.addr.dst_storage, &caller->route.addr.src_storage, 28), 0);
  if (!iwarp()) bringUp(accepted, b.qp);
  rdma_conn_param reply = parameters("welcome", b.qp->qp_num);
  ASSERT_EQ(cm::accept(accepted, &reply), 0);
  if (iwarp()) {
    EXPECT_EQ(calls.expect(RDMA_CM_EVENT_ESTABLISHED).private_data, "welcome");
  } else {
    EXPECT_EQ(calls.expect(RDMA_CM_EVENT_CONNECT_RESPONSE).private_data, padded("welcome", 196));
    bringUp(caller, a.qp);
    ASSERT_EQ(cm::establish(caller), 0);
  }
  listens.expect(RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(a.state(), IBV_QPS_RTS);
  EXPECT_EQ(b.state(), IBV_QPS_RTS);
  a.peer = b.address();
  ASSERT_EQ(b.receive(1, 0, 64), 0);
  *a.word(0) = 77;
  ASSERT_EQ(a.send({.opcode = IBV_WR_SEND, .length = 8}), 0);
  EXPECT_EQ(b.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(*b.word(0), 77U);
  EXPECT_EQ(a.wait().status, IBV_WC_SUCCESS);
}

TEST_P(CmLink, ConnectsQueuePairsOfItsOwn) {
  CmId listener = listenOn(listens, device);
  CmId caller = resolved(calls, device, cmAddress(device, portOf(listener)));
  ibv_pd* pd = allocPd(caller->verbs);
  ibv_cq* cq = createCq(caller->verbs, 16, nullptr, nullptr, 0);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  init.cap = {4, 4, 1, 1, 0};
  ibv_pd* foreign = allocPd(device);
  errno = 0;
  EXPECT_NE(cm::createQp(caller, foreign, &init), 0);  // of another context
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(deallocPd(foreign), 0);
  ASSERT_EQ(cm::createQp(caller, pd, &init), 0);
  EXPECT_EQ(caller->qp->state, IBV_QPS_INIT);
  ASSERT_EQ(cm::connect(caller, nullptr), 0);
  {
    CmId accepted(listens.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id);
    ASSERT_EQ(cm::createQp(accepted, pd, &init), 0);
    ASSERT_EQ(cm::accept(accepted, nullptr), 0);
    calls.expect(RDMA_CM_EVENT_ESTABLISHED);
    listens.expect(RDMA_CM_EVENT_ESTABLISHED);
    EXPECT_EQ(caller->qp->state, IBV_QPS_RTS);
    EXPECT_EQ(accepted->qp->state, IBV_QPS_RTS);
    ASSERT_EQ(cm::disconnect(caller), 0);
    calls.expect(RDMA_CM_EVENT_DISCONNECTED);
    listens.expect(RDMA_CM_EVENT_DISCONNECTED);
    ASSERT_EQ(cm::disconnect(accepted), 0);  // answers
    EXPECT_TRUE(listens.empty());
    EXPECT_EQ(caller->qp->state, IBV_QPS_ERR);
    EXPECT_EQ(accepted->qp->state, IBV_QPS_ERR);
  }
  cm::destroyQp(caller);
  EXPECT_EQ(destroyCq(cq), 0);
  EXPECT_EQ(deallocPd(pd), 0);
}

TEST_P(CmLink, RejectsWithAReason) {
  CmId listener = listenOn(listens, device);
  CmId caller = calling(calls, other, cmAddress(device, portOf(listener)), parameters("let me in", 5));
  CmId unwanted(listens.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id);
  ASSERT_EQ(cm::reject(unwanted, "full", 4), 0);
  const CmEvent event = calls.expect(RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(event.status, iwarp() ? -ECONNREFUSED : 28);
  EXPECT_EQ(event.private_data, padded("full", 148));
  EXPECT_EQ(cm::reject(unwanted, nullptr, 0), -1);  // once is enough
}

TEST_P(CmLink, NobodyListens) {
  CmId bound(listens);
  sockaddr_storage address = cmAddress(device);
  ASSERT_EQ(cm::bindAddr(bound, raw(address)), 0);  // a port that is taken, and not listened on
  CmId caller = calling(calls, other, cmAddress(device, portOf(bound)), parameters(""));
  EXPECT_EQ(calls.expect(RDMA_CM_EVENT_REJECTED).status, iwarp() ? -ECONNREFUSED : 8);
}

TEST_P(CmLink, NoSuchAddress) {
  CmId id(calls);
  sockaddr_storage nowhere = cmAddress(device, 4711);
  reinterpret_cast<sockaddr_in6&>(nowhere).sin6_addr.s6_addr[15] ^= 0x55;
  ASSERT_EQ(cm::resolveAddr(id, nullptr, raw(nowhere), 2000), 0);
  EXPECT_EQ(calls.expect(RDMA_CM_EVENT_ADDR_ERROR).status, -EHOSTUNREACH);
  CmId foreign(calls);
  EXPECT_EQ(cm::bindAddr(foreign, raw(nowhere)), -1);
  EXPECT_EQ(errno, EADDRNOTAVAIL);
}

TEST_P(CmLink, AListenerThatGoesRefusesWhoWaits) {
  auto listener = std::make_unique<CmId>(listenOn(listens, device));
  CmId asked = calling(calls, other, cmAddress(device, portOf(*listener)), parameters("1", 5));
  CmId unseen = calling(calls, other, cmAddress(device, portOf(*listener)), parameters("2", 6));
  CmId known(listens.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id);
  listener.reset();
  EXPECT_EQ(calls.expect(RDMA_CM_EVENT_REJECTED).id, unseen);
  EXPECT_TRUE(calls.empty());  // who was given to the program stays
  ASSERT_EQ(cm::reject(known, nullptr, 0), 0);
  EXPECT_EQ(calls.expect(RDMA_CM_EVENT_REJECTED).id, asked);
}

TEST_P(CmLink, ACallerThatGivesUp) {
  CmId listener = listenOn(listens, device);
  { CmId caller = calling(calls, other, cmAddress(device, portOf(listener)), parameters("", 5)); }
  CmId request(listens.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id);
  EXPECT_EQ(listens.expect(RDMA_CM_EVENT_REJECTED).id, request);
  rdma_conn_param reply = parameters("", 7);
  EXPECT_EQ(cm::accept(request, &reply), -1);
  EXPECT_EQ(errno, ECONNRESET);
}

TEST_P(CmLink, ManyConnections) {
  constexpr int kMany = 300;
  CmId listener = listenOn(listens, device);
  std::deque<CmId> callers;
  std::deque<CmId> accepted;
  for (uint32_t i = 0; i < kMany; ++i)
    callers.push_back(calling(calls, other, cmAddress(device, portOf(listener)), parameters("", 1000 + i)));
  for (uint32_t i = 0; i < kMany; ++i) {
    const CmEvent request = listens.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    EXPECT_EQ(request.conn.qp_num, 1000 + i);  // in the order of the calls
    accepted.emplace_back(request.id);
  }
  for (uint32_t i = 0; i < kMany; i += 2) ASSERT_EQ(cm::reject(accepted[i], nullptr, 0), 0);
  std::set<rdma_cm_id*> refused;
  for (uint32_t i = 0; i < kMany; i += 2) refused.insert(calls.expect(RDMA_CM_EVENT_REJECTED).id);
  for (uint32_t i = 0; i < kMany; ++i) EXPECT_EQ(refused.count(callers[i]), i % 2 == 0 ? 1U : 0U);
  EXPECT_TRUE(calls.empty());
  accepted.clear();
  for (uint32_t i = 1; i < kMany; i += 2) refused.insert(calls.expect(RDMA_CM_EVENT_REJECTED).id);
  EXPECT_EQ(refused.size(), size_t{kMany});
}

TEST_P(CmLink, ABacklogHasAnEnd) {
  CmId listener = listenOn(listens, device, 0, 2);
  std::deque<CmId> callers;
  for (int i = 0; i < 3; ++i)
    callers.push_back(calling(calls, other, cmAddress(device, portOf(listener)), parameters("", 5)));
  CmId first(listens.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id);
  CmId second(listens.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id);
  EXPECT_TRUE(listens.empty());
  EXPECT_EQ(calls.expect(RDMA_CM_EVENT_REJECTED).id, callers[2]);
}

TEST_P(CmLink, MigratesWithItsEvents) {
  CmId listener = listenOn(listens, device);
  CmId caller = calling(calls, other, cmAddress(device, portOf(listener)), parameters("", 5));
  CmChannel elsewhere;
  CmId request(listens.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id);
  ASSERT_EQ(cm::migrateId(request, elsewhere), 0);
  EXPECT_EQ(request->channel, static_cast<rdma_event_channel*>(elsewhere));
  ASSERT_EQ(cm::reject(request, nullptr, 0), 0);
  EXPECT_EQ(calls.expect(RDMA_CM_EVENT_REJECTED).id, caller);
  CmId gone = calling(calls, other, cmAddress(device, portOf(listener)), parameters("", 5));
  CmId second(listens.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id);
  ASSERT_EQ(cm::migrateId(second, elsewhere), 0);
  ASSERT_EQ(cm::disconnect(gone), -1);  // there is no connection yet
  EXPECT_EQ(errno, EINVAL);
  { CmId leaves = std::move(gone); }
  EXPECT_EQ(elsewhere.expect(RDMA_CM_EVENT_REJECTED).id, second);
  EXPECT_TRUE(listens.empty());
}

TEST(ConnectionManager, PortsAreOfAnAddress) {
  OpenDevice device("count=2");
  ibv_context* other = openNamed("soft1");
  CmChannel channel;
  CmId first = listenOn(channel, device);
  CmId elsewhere = listenOn(channel, other, portOf(first));  // another address: no conflict
  CmId third(channel);
  sockaddr_storage taken = cmAddress(device, portOf(first));
  EXPECT_EQ(cm::bindAddr(third, raw(taken)), -1);
  EXPECT_EQ(errno, EADDRINUSE);
  sockaddr_storage any{};
  any.ss_family = AF_INET;
  reinterpret_cast<sockaddr_in&>(any).sin_port = htons(portOf(first));
  EXPECT_EQ(cm::bindAddr(third, raw(any)), -1);
  EXPECT_EQ(errno, EADDRINUSE);
  closeDevice(other);
}

TEST(ConnectionManager, AnyAddressIsAllAddresses) {
  OpenDevice device("count=2");
  ibv_context* other = openNamed("soft1");
  CmChannel listens;
  CmChannel calls;
  CmId listener(listens);
  sockaddr_storage any{};
  any.ss_family = AF_INET6;
  ASSERT_EQ(cm::bindAddr(listener, raw(any)), 0);
  ASSERT_EQ(cm::listen(listener, 0), 0);
  EXPECT_EQ(listener->verbs, nullptr);
  for (ibv_context* target : {static_cast<ibv_context*>(device), other}) {
    CmId caller(calls);
    sockaddr_storage address = cmAddress(target, portOf(listener));
    ASSERT_EQ(cm::resolveAddr(caller, nullptr, raw(address), 2000), 0);  // from wherever
    calls.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    ASSERT_EQ(cm::resolveRoute(caller, 2000), 0);
    calls.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    rdma_conn_param wanted = parameters("", 5);
    ASSERT_EQ(cm::connect(caller, &wanted), 0);
    CmId request(listens.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id);
    EXPECT_STREQ(getDeviceName(request->verbs->device), getDeviceName(target->device));
  }
  closeDevice(other);
}

TEST(ConnectionManager, LinksDoNotMix) {
  OpenDevice device("link=roce;link=iwarp");
  ibv_context* iwarp = openNamed("soft1");
  CmChannel channel;
  CmId id(channel);
  sockaddr_storage from = cmAddress(device);
  sockaddr_storage to = cmAddress(iwarp, 4711);
  ASSERT_EQ(cm::resolveAddr(id, raw(from), raw(to), 2000), 0);
  EXPECT_EQ(channel.expect(RDMA_CM_EVENT_ADDR_ERROR).status, -EHOSTUNREACH);
  closeDevice(iwarp);
}

TEST(ConnectionManager, APortThatIsDownIsOutOfReach) {
  OpenDevice device("port_state=down;name=up");
  ibv_context* up = openNamed("up");
  CmChannel channel;
  CmId caller = calling(channel, up, cmAddress(device, 4711), parameters(""));
  EXPECT_EQ(channel.expect(RDMA_CM_EVENT_UNREACHABLE).status, -ETIMEDOUT);
  closeDevice(up);
}

TEST(ConnectionManager, PrivateDataHasALimit) {
  OpenDevice device;
  CmChannel calls;
  CmChannel listens;
  CmId listener = listenOn(listens, device);
  CmId caller = resolved(calls, device, cmAddress(device, portOf(listener)));
  const std::string longest(56, 'x');
  rdma_conn_param wanted = parameters(longest + "y", 5);
  EXPECT_EQ(cm::connect(caller, &wanted), -1);
  EXPECT_EQ(errno, EINVAL);
  wanted = parameters(longest, 5);
  ASSERT_EQ(cm::connect(caller, &wanted), 0);
  const CmEvent request = listens.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(request.private_data, longest);
  CmId accepted(request.id);
  const std::string too_long(197, 'z');
  rdma_conn_param reply = parameters(too_long, 6);
  EXPECT_EQ(cm::accept(accepted, &reply), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(cm::reject(accepted, too_long.data(), 149), -1);
}

TEST(ConnectionManager, OptionsReachTheQueuePair) {
  OpenDevice device;
  CmChannel calls;
  CmChannel listens;
  CmId listener = listenOn(listens, device);
  CmId caller = resolved(calls, device, cmAddress(device, portOf(listener)));
  uint8_t traffic_class = 106;
  uint8_t timeout = 14;
  ASSERT_EQ(cm::setOption(caller, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &traffic_class, 1), 0);
  ASSERT_EQ(cm::setOption(caller, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1), 0);
  EXPECT_EQ(cm::setOption(caller, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &traffic_class, 4), -1);
  rdma_conn_param wanted = parameters("", 5);
  ASSERT_EQ(cm::connect(caller, &wanted), 0);
  CmId accepted(listens.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id);
  ASSERT_EQ(cm::accept(accepted, &wanted), 0);
  ibv_qp_attr attr{};
  int mask = 0;
  attr.qp_state = IBV_QPS_RTR;
  EXPECT_EQ(cm::initQpAttr(caller, &attr, &mask), -1);  // nobody has answered yet
  calls.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
  ASSERT_EQ(cm::initQpAttr(caller, &attr, &mask), 0);
  EXPECT_EQ(attr.ah_attr.grh.traffic_class, 106);
  EXPECT_EQ(attr.dest_qp_num, 5U);
  attr.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(cm::initQpAttr(caller, &attr, &mask), 0);
  EXPECT_EQ(attr.timeout, 14);
}

// A blocking channel is woken by what another thread causes.
TEST(ConnectionManager, WaitsForAnEvent) {
  OpenDevice device;
  rdma_event_channel* channel = cm::createEventChannel();
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(cm::createId(channel, &id, &device, RDMA_PS_TCP), 0);
  std::thread resolver([&] {
    sockaddr_storage address = cmAddress(device, 4711);
    EXPECT_EQ(cm::resolveAddr(id, nullptr, raw(address), 2000), 0);
  });
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(cm::getEvent(channel, &event), 0);
  resolver.join();
  EXPECT_EQ(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(event->id->context, &device);
  std::thread acknowledger([&] { EXPECT_EQ(cm::ackEvent(event), 0); });
  EXPECT_EQ(cm::destroyId(id), 0);  // waits for it
  acknowledger.join();
  cm::destroyEventChannel(channel);
}

}  // namespace
}  // namespace railwise::softdev::test
