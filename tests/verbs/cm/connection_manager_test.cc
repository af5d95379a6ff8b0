// Connections that the communication manager brings up, on the software device's.
#include "verbs/cm/connection_manager.h"

#include <arpa/inet.h>

#include <cstring>
#include <stdexcept>

#include "base/dynamic_library.h"
#include "said.h"
#include "software_device.h"
#include "tests/ok.h"
#include "verbs/cm/library.h"

namespace railwise::verbs {
namespace {

std::span<const std::byte> bytesOf(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string textOf(const CmPrivateData& data) {
  return {reinterpret_cast<const char*>(data.bytes.data()), data.size};
}

// A device with what a queue pair needs, and memory.
struct Side {
  Side(const test::SoftwareDevice& device, int index)
      : config(device.config()), context(device.open(index)), pd(library().alloc_pd(context.get())) {
    cq.reset(library().create_cq(context.get(), 16, nullptr, nullptr, 0));
    mr.reset(
        library().reg_mr(pd.get(), memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
    port = *queryPort(context.get(), 1);
    address = cmAddresses(context.get(), port)->at(0);
  }

  QueuePair queuePair() {
    QueuePair made = std::move(*createQueuePair(pd.get(), cq.get(), port, config, {4, 4, 0}));
    ibv_sge sge{reinterpret_cast<uint64_t>(memory), sizeof memory, mr->lkey};
    ibv_recv_wr receive{};
    receive.wr_id = 7;
    receive.sg_list = &sge;
    receive.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_recv(made.qp.get(), &receive, &bad), 0);
    return made;
  }

  void send(ibv_qp* qp) {
    ibv_sge sge{reinterpret_cast<uint64_t>(memory), 8, mr->lkey};
    ibv_send_wr request{};
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    request.sg_list = &sge;
    request.num_sge = 1;
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(qp, &request, &bad), 0);
  }

  const Config& config;
  char memory[64] = {};
  Context context;
  Pd pd;
  Cq cq;
  Mr mr;
  Port port;
  SocketAddress address;
};

// More than any of the steps needs.
constexpr int kEnough = 1000;

// What advance() says in the end.
Result<bool> finish(CmConnection& connection) {
  Result<bool> up = false;
  for (int i = 0; i < kEnough && up.ok() && !*up; ++i) up = connection.advance();
  return up;
}

class CmWrapper : public testing::TestWithParam<const char*> {
 protected:
  CmWrapper() : device("count=2,link=" + std::string(GetParam())), here(device, 0), there(device, 1) {}

  CmListener listen(const Side& side) {
    return std::move(*CmListener::create(side.context.get(), side.port, side.address, 16));
  }
  std::unique_ptr<CmConnection> call(Side& from, const SocketAddress& peer, const std::string& data = "",
                                     CmPath path = {}) {
    auto made = CmConnection::connect(from.queuePair(), from.port, from.address, peer, from.config, path,
                                      bytesOf(data));
    EXPECT_OK(made);
    return std::move(*made);
  }
  // The next request, for which the caller has to be asked on.
  CmRequest awaitRequest(CmListener& listener, CmConnection& caller) {
    for (int i = 0; i < kEnough; ++i) {
      EXPECT_FALSE(*caller.advance());
      std::optional<CmRequest> request = std::move(*listener.poll());
      if (request) return std::move(*request);
    }
    throw std::runtime_error("no request");
  }
  std::unique_ptr<CmConnection> answer(CmRequest request, Side& side, const std::string& data = "") {
    auto made =
        CmConnection::accept(std::move(request), side.queuePair(), side.port, side.config, {}, bytesOf(data));
    EXPECT_OK(made);
    return std::move(*made);
  }

  test::Said said;
  test::SoftwareDevice device;
  Side here;
  Side there;
};
INSTANTIATE_TEST_SUITE_P(Links, CmWrapper, testing::Values("roce", "ib", "iwarp"),
                         [](const auto& suite) { return std::string(suite.param); });

TEST_P(CmWrapper, ConnectsAndCarriesData) {
  CmListener listener = listen(there);
  ASSERT_NE(listener.address().port(), 0);
  std::unique_ptr<CmConnection> caller = call(here, listener.address(), "who calls");
  CmRequest request = awaitRequest(listener, *caller);
  EXPECT_EQ(textOf(request.privateData()).substr(0, 9), "who calls");
  EXPECT_EQ(request.peer().bytes()[0], here.address.bytes()[0]);
  std::unique_ptr<CmConnection> acceptor = answer(std::move(request), there, "welcome");
  ASSERT_OK(finish(*caller));
  ASSERT_TRUE(*caller->advance());
  ASSERT_TRUE(*finish(*acceptor));
  EXPECT_EQ(textOf(caller->reply()).substr(0, 7), "welcome");
  std::strcpy(there.memory, "clear");
  there.send(acceptor->qp());
  ibv_wc wc{};
  ASSERT_EQ(ibv_poll_cq(here.cq.get(), 1, &wc), 1);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_STREQ(here.memory, "clear");
  ASSERT_EQ(ibv_poll_cq(there.cq.get(), 1, &wc), 1);
  EXPECT_EQ(said.warnings(), "");
}

TEST_P(CmWrapper, AConnectionOutlivesItsListener) {
  auto listener = std::make_unique<CmListener>(listen(there));
  std::unique_ptr<CmConnection> caller = call(here, listener->address());
  CmRequest request = awaitRequest(*listener, *caller);
  listener.reset();
  std::unique_ptr<CmConnection> acceptor = answer(std::move(request), there);
  EXPECT_TRUE(*finish(*caller));
  EXPECT_TRUE(*finish(*acceptor));
}

TEST_P(CmWrapper, SaysThatThePeerHasLeft) {
  CmListener listener = listen(there);
  std::unique_ptr<CmConnection> caller = call(here, listener.address());
  std::unique_ptr<CmConnection> acceptor = answer(awaitRequest(listener, *caller), there);
  ASSERT_TRUE(*finish(*caller));
  ASSERT_TRUE(*finish(*acceptor));
  caller.reset();
  Result<bool> answered = acceptor->advance();
  for (int i = 0; i < kEnough && answered.ok(); ++i) answered = acceptor->advance();
  EXPECT_EQ(answered.status().code, Code::kRemote);
}

TEST_P(CmWrapper, ARefusalHasAReason) {
  CmListener listener = listen(there);
  std::unique_ptr<CmConnection> caller = call(here, listener.address());
  awaitRequest(listener, *caller).reject(bytesOf("not from here"));
  EXPECT_EQ(finish(*caller).status().code, Code::kRemote);
  EXPECT_HAS(said.warnings(), "refused by the peer (not from here)");
  EXPECT_HAS(said.warnings(), listener.address().text());
  EXPECT_HAS(said.warnings(), "soft0 port 1 qp");
  EXPECT_EQ(caller->advance().status().code, Code::kRemote);  // for good
}

TEST_P(CmWrapper, ADroppedRequestIsRefused) {
  CmListener listener = listen(there);
  std::unique_ptr<CmConnection> caller = call(here, listener.address());
  { CmRequest dropped = awaitRequest(listener, *caller); }
  EXPECT_EQ(finish(*caller).status().code, Code::kRemote);
}

TEST_P(CmWrapper, NobodyListensThere) {
  SocketAddress nobody(there.address.family(), there.address.bytes(), 9, 0);
  std::unique_ptr<CmConnection> caller = call(here, nobody);
  EXPECT_EQ(finish(*caller).status().code, Code::kRemote);
  EXPECT_HAS(said.warnings(), "refused");
}

TEST_P(CmWrapper, WaitsAsLongAsItIsAsked) {
  CmListener listener = listen(there);
  std::unique_ptr<CmConnection> caller = call(here, listener.address());
  CmRequest unanswered = awaitRequest(listener, *caller);
  const Result<bool> up = finish(*caller);
  ASSERT_OK(up);
  EXPECT_FALSE(*up);
  EXPECT_FALSE(listener.poll()->has_value());
}

TEST_P(CmWrapper, TheAddressMustBeThePorts) {
  CmListener listener = listen(there);
  auto made = CmConnection::connect(here.queuePair(), here.port, there.address, listener.address(),
                                    here.config, {}, {});
  ASSERT_OK(made);
  EXPECT_EQ(finish(**made).status().code, Code::kInvalidUsage);
  EXPECT_HAS(said.warnings(), "the address belongs to soft1");
}

TEST_P(CmWrapper, ManyAtOnce) {
  constexpr size_t kMany = 100;
  CmListener listener = std::move(*CmListener::create(there.context.get(), there.port, there.address, 0));
  std::vector<std::unique_ptr<CmConnection>> callers;
  std::vector<std::unique_ptr<CmConnection>> acceptors;
  for (size_t i = 0; i < kMany; ++i) callers.push_back(call(here, listener.address()));
  size_t up = 0;
  for (int round = 0; round < kEnough && up < 2 * kMany; ++round) {
    up = 0;
    while (std::optional<CmRequest> request = std::move(*listener.poll()))
      acceptors.push_back(answer(std::move(*request), there));
    for (const auto& side : {&callers, &acceptors}) {
      for (const auto& connection : *side) {
        const Result<bool> stands = connection->advance();
        ASSERT_OK(stands);
        up += *stands ? 1 : 0;
      }
    }
  }
  EXPECT_EQ(up, 2 * kMany);
}

// On iWARP a port of the manager's may be TCP's already (the fault plays that), which only using it tells.
class CmPortInUse : public testing::Test {
 protected:
  static std::string verbFails(const std::string& verb, int times) {
    return "count=2,link=iwarp,fault=verb=" + verb + " errno=EADDRINUSE count=" + std::to_string(times);
  }
  test::Said said_;
};

TEST_F(CmPortInUse, TheListenerTakesAnother) {
  const test::SoftwareDevice device(verbFails("rdma_listen", 3));
  const Side side(device, 0);
  EXPECT_OK(CmListener::create(side.context.get(), side.port, side.address, 16));
  EXPECT_EQ(said_.warnings(), "");
}

TEST_F(CmPortInUse, TheListenerGivesUpInTheEnd) {
  const test::SoftwareDevice device(verbFails("rdma_listen", 100));
  const Side side(device, 0);
  EXPECT_EQ(CmListener::create(side.context.get(), side.port, side.address, 16).status().sys_errno,
            EADDRINUSE);
  EXPECT_HAS(said_.warnings(), "listening on");
}

TEST_F(CmPortInUse, TheCallerTakesAnother) {
  const test::SoftwareDevice device(verbFails("rdma_connect", 3));
  Side here(device, 0);
  const Side there(device, 1);
  CmListener listener = std::move(*CmListener::create(there.context.get(), there.port, there.address, 16));
  auto caller = std::move(*CmConnection::connect(here.queuePair(), here.port, here.address,
                                                 listener.address(), here.config, {}, bytesOf("who calls")));
  std::optional<CmRequest> request;
  for (int i = 0; i < kEnough && !request; ++i) {
    ASSERT_OK(caller->advance());
    request = std::move(*listener.poll());
  }
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(textOf(request->privateData()).substr(0, 9), "who calls");
  EXPECT_EQ(said_.warnings(), "");
}

TEST_F(CmPortInUse, TheCallerGivesUpInTheEnd) {
  const test::SoftwareDevice device(verbFails("rdma_connect", 100));
  Side here(device, 0);
  const Side there(device, 1);
  CmListener listener = std::move(*CmListener::create(there.context.get(), there.port, there.address, 16));
  auto caller = std::move(*CmConnection::connect(here.queuePair(), here.port, here.address,
                                                 listener.address(), here.config, {}, {}));
  EXPECT_EQ(finish(*caller).status().sys_errno, EADDRINUSE);
  EXPECT_HAS(said_.warnings(), "connecting: Address already in use");
}

TEST(CmLimits, ThePathAndOurLimitsReachTheQueuePair) {
  test::SoftwareDevice device("count=2");
  Side here(device, 0);
  Side there(device, 1);
  CmListener listener = std::move(*CmListener::create(there.context.get(), there.port, there.address, 0));
  auto caller = std::move(*CmConnection::connect(here.queuePair(), here.port, here.address,
                                                 listener.address(), here.config, {106}, {}));
  std::unique_ptr<CmConnection> acceptor;
  for (int i = 0; i < kEnough && !*caller->advance(); ++i) {
    std::optional<CmRequest> request = std::move(*listener.poll());
    if (request)
      acceptor = std::move(
          *CmConnection::accept(std::move(*request), there.queuePair(), there.port, there.config, {106}, {}));
  }
  for (const CmConnection* end : {caller.get(), acceptor.get()}) {
    ASSERT_NE(end, nullptr);
    ibv_qp_attr attributes{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(library().query_qp(end->qp(), &attributes, 0, &init), 0);
    EXPECT_EQ(attributes.qp_state, IBV_QPS_RTS);
    EXPECT_EQ(attributes.ah_attr.grh.traffic_class, 106);
    EXPECT_EQ(attributes.timeout, here.config.ib_timeout);
    EXPECT_EQ(attributes.rnr_retry, 7);
    EXPECT_EQ(attributes.qp_access_flags, unsigned{IBV_ACCESS_REMOTE_WRITE});  // as the queue pair was made
  }
}

TEST(CmLimits, PrivateDataThatIsTooLongIsRefused) {
  test::SoftwareDevice device;
  Side here(device, 0);
  const std::string too_long(57, 'x');
  EXPECT_EQ(CmConnection::connect(here.queuePair(), here.port, here.address, here.address, here.config, {},
                                  bytesOf(too_long))
                .status()
                .code,
            Code::kInvalidArgument);
}

TEST(CmAddresses, TravelAsSixteenBytes) {
  for (const char* text : {"10.1.2.3", "2001:db8::5", "fe80::7"}) {
    ibv_gid gid = {};
    in_addr v4;
    if (inet_pton(AF_INET, text, &v4) == 1) {
      gid.raw[10] = gid.raw[11] = 0xff;
      std::memcpy(gid.raw + 12, &v4, sizeof v4);
    } else {
      ASSERT_EQ(inet_pton(AF_INET6, text, gid.raw), 1);
    }
    const SocketAddress address = cmAddressOf(gid, 4711, 3);
    const bool link_local = text[0] == 'f';
    EXPECT_HAS(address.text(), text);
    EXPECT_EQ(address.port(), 4711);
    EXPECT_EQ(address.scopeId(), link_local ? 3U : 0U);
    EXPECT_EQ(std::memcmp(cmAddressBytes(address).raw, gid.raw, sizeof gid.raw), 0);
  }
}

// The table of the library in force is put back by the next load().
TEST(CmLibraryFile, SaysWhatToInstall) {
  test::Said said;
  setCmLibrary("librailwise-there-is-none.so.1");
  EXPECT_EQ(cmLibrary().status().code, Code::kNoDevice);
  EXPECT_HAS(said.warnings(), "Install librdmacm1");
  said.clear();
  EXPECT_EQ(cmLibrary().status().code, Code::kNoDevice);
  EXPECT_EQ(said.warnings(), "");  // once is enough
  setCmLibrary("libm.so.6");
  EXPECT_EQ(cmLibrary().status().code, Code::kNoDevice);
  EXPECT_HAS(said.warnings(), "rdma_create_event_channel@RDMACM_1.0");
  setCmLibrary("");
}

TEST(CmLibraryFile, LibrdmacmHasAllOfIt) {
  if (const auto found = DynamicLibrary::open({"librdmacm.so.1"}); !found.ok()) GTEST_SKIP() << found.error();
  setCmLibrary("librdmacm.so.1");
  const Result<const CmLibrary*> library = cmLibrary();
  ASSERT_OK(library);
  EXPECT_STREQ((*library)->name, "librdmacm");
  EXPECT_EQ((*library)->local_addresses, nullptr);
  setCmLibrary("");
}

}  // namespace
}  // namespace railwise::verbs
