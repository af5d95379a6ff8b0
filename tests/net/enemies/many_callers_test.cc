// Many peers call one listener at once, among enemies: each one gets an end of its own (many_listener.h).
#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <memory>
#include <vector>

#include "net/connector.h"
#include "net/enemies/middle.h"
#include "net/many_listener.h"
#include "net/paths/link_pair.h"
#include "net/tcp.h"
#include "said.h"
#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise::net {
namespace {

constexpr uint32_t kListenersRank = 99;
constexpr uint32_t kRefused = 77;
constexpr uint64_t kCells = 40;

class ManyCallers : public testing::Test {
 protected:
  struct Peer {
    uint32_t rank;
    std::unique_ptr<Connector<FakeSource>> connector;
    std::unique_ptr<FakeSource> source;
    Status failure;
  };

  ~ManyCallers() override {
    peers_.clear();
    targets_.clear();
    listener_.reset();
  }

  ConnectionOptions options(uint32_t rank) {
    ConnectionOptions options{net().config(), net().host(), -1, 1, net().railBandwidths(device())};
    options.devices = net().physicalDevices();
    options.watcher = net().watcher();
    options.resumer = net().resumer();
    options.user_word = rank;
    return options;
  }
  void listen() {
    auto made = ManyListener<FakeTarget>::create(
        device(), options(kListenersRank), ListenerKind::kOneSided,
        [this](const EndInfo& request, std::string& refusal) -> Result<std::unique_ptr<FakeTarget>> {
          if (request.user_word == kRefused) {
            refusal = "no such rank";
            return Status{Code::kRemote, 0};
          }
          std::unique_ptr<FakeTarget> target(
              new FakeTarget(device(), options(kListenersRank), request, CellShape()));
          RAILWISE_TRY(target->open(request));
          ranks_[target.get()] = request.user_word;
          return target;
        });
    ASSERT_OK(made);
    listener_ = std::move(*made);
  }
  // A peer begins to call; `handle`: where it calls.
  void call(uint32_t rank, const ListenHandle& handle) {
    auto connector =
        Connector<FakeSource>::create(device(), options(rank), handle, ListenerKind::kOneSided,
                                      [this, rank, handle]() -> Result<std::unique_ptr<FakeSource>> {
                                        std::unique_ptr<FakeSource> source(new FakeSource(
                                            device(), options(rank), handle.rails, CellShape()));
                                        RAILWISE_TRY(source->open());
                                        return source;
                                      });
    ASSERT_OK(connector);
    peers_.push_back({rank, std::move(*connector), nullptr, {}});
  }
  void call(uint32_t rank) { call(rank, listener_->handle()); }
  // Advances all handshakes.
  void advance() {
    for (Peer& peer : peers_) {
      if (peer.source != nullptr || !peer.failure.ok()) continue;
      Result<std::unique_ptr<FakeSource>> up = peer.connector->advance();
      if (up.ok()) peer.source = std::move(*up);
      else peer.failure = up.status();
    }
    Result<std::unique_ptr<FakeTarget>> accepted = listener_->accept();
    ASSERT_OK(accepted);
    if (*accepted == nullptr) return;
    const uint32_t rank = ranks_.at(accepted->get());
    EXPECT_EQ(targets_.count(rank), 0U) << "rank " << rank << " has two ends";
    targets_[rank] = std::move(*accepted);
  }
  bool allUp() {
    for (const Peer& peer : peers_) {
      if (peer.rank != kRefused && (peer.source == nullptr || targets_.count(peer.rank) == 0)) return false;
      if (peer.rank == kRefused && peer.failure.ok()) return false;
    }
    return true;
  }
  void connectAll() {
    for (test::Patience patience; !allUp(); patience.again()) {
      ASSERT_NO_FATAL_FAILURE(advance());
      for (const Peer& peer : peers_) {
        if (peer.rank != kRefused) ASSERT_OK(peer.failure) << "rank " << peer.rank;
      }
    }
  }
  // Each pair counts cells of its own.
  void expectTraffic() {
    for (Peer& peer : peers_) {
      if (peer.source == nullptr) continue;
      FakeTarget& target = *targets_.at(peer.rank);
      EXPECT_EQ(target.link().peerWord(), peer.rank);
      EXPECT_EQ(peer.source->link().peerWord(), kListenersRank);
      peer.source->expect(kCells);
      target.expect(kCells);
      for (test::Patience patience; !peer.source->done() || !target.done(); patience.again()) {
        ASSERT_OK(peer.source->progress()) << "rank " << peer.rank;
        ASSERT_OK(target.progress()) << "rank " << peer.rank;
      }
      EXPECT_EQ(target.counted(), kCells);
      EXPECT_EQ(peer.source->problem() + target.problem(), "");
    }
  }
  Net& net() { return place_.net(); }
  const Device& device() { return *net().device(0); }

  LinkPair place_{PairPlaces{}};  // the devices
  std::unique_ptr<ManyListener<FakeTarget>> listener_;
  std::map<const FakeTarget*, uint32_t> ranks_;
  std::map<uint32_t, std::unique_ptr<FakeTarget>> targets_;
  std::vector<Peer> peers_;
};

TEST_F(ManyCallers, AllComeUpBesideACutCallAStrangerAndAFailure) {
  const test::Said said;
  ASSERT_NO_FATAL_FAILURE(listen());
  Result<Socket> stranger = Socket::connect(handleAddresses(listener_->handle()).front());
  ASSERT_OK(stranger);
  for (test::Patience patience; *stranger->connected() != Io::kDone; patience.again()) {
  }
  std::string rubbish = "GET / HTTP/1.1\r\nHost: railwise\r\n\r\n";
  Transfer transfer = {std::as_writable_bytes(std::span(rubbish)), 0};
  ASSERT_OK(stranger->send(transfer));
  // Its first call ends in the middle of the reply, when the listener waits for its last message.
  Middle middle([](const Place& place, std::string& bytes) {
    const bool cuts = place.call == 1 && place.from == From::kListener;
    if (cuts) bytes.resize(sizeof(MessageHeader));
    return !cuts;
  });
  ListenHandle handle = listener_->handle();
  char bytes[kHandleBytes];
  std::memcpy(bytes, &handle, sizeof handle);
  middle.stepBetween(bytes);
  std::memcpy(&handle, bytes, sizeof handle);
  for (uint32_t rank = 0; rank < 16; ++rank) {
    if (rank == 5) ASSERT_NO_FATAL_FAILURE(call(rank, handle));
    else ASSERT_NO_FATAL_FAILURE(call(rank));
  }
  ASSERT_NO_FATAL_FAILURE(call(kRefused));
  ASSERT_NO_FATAL_FAILURE(connectAll());
  EXPECT_EQ(middle.calls(), 2) << "the cut one called again";
  EXPECT_HAS(said.warnings(), "a stranger called from") << said.all();
  EXPECT_HAS(said.warnings(), "is refused: no such rank") << said.all();
  ASSERT_NO_FATAL_FAILURE(expectTraffic());
  // What came before has not ended the listener.
  ASSERT_NO_FATAL_FAILURE(call(16));
  ASSERT_NO_FATAL_FAILURE(connectAll());
}

TEST_F(ManyCallers, WhoIsUpIsGivenAwayWhileOthersStillCall) {
  ASSERT_NO_FATAL_FAILURE(listen());
  ASSERT_NO_FATAL_FAILURE(call(1));
  // Proven, and then nothing.
  auto request = makeMessage<ConnectRequest>(MessageType::kRequest);
  FakeSource& source = *new FakeSource(device(), options(2), 1, CellShape());
  const std::unique_ptr<FakeSource> owner(&source);
  ASSERT_OK(source.open());
  request.random = randomBytes();
  ASSERT_OK(source.chooser().describe(request.end));
  seal(request, listener_->handle().secret);
  Result<Socket> silent = Socket::connect(handleAddresses(listener_->handle()).front());
  ASSERT_OK(silent);
  for (test::Patience patience; *silent->connected() != Io::kDone; patience.again()) {
  }
  Transfer transfer = transferOf(request);
  ASSERT_OK(silent->send(transfer));
  for (test::Patience patience; listener_->underWay() == 0; patience.again()) {
    Result<std::unique_ptr<FakeTarget>> accepted = listener_->accept();
    ASSERT_TRUE(accepted.ok() && *accepted == nullptr);
  }
  ASSERT_NO_FATAL_FAILURE(connectAll());
  EXPECT_EQ(listener_->underWay(), 1U) << "the silent one";
  ASSERT_NO_FATAL_FAILURE(expectTraffic());
}

TEST_F(ManyCallers, AHandleOfMessagesIsOfNoUseAndTheOtherWayRound) {
  const test::Said said;
  ASSERT_NO_FATAL_FAILURE(listen());
  const auto make = []() -> Result<std::unique_ptr<FakeSource>> { return Status{Code::kInternal, 0}; };
  const Status status =
      Connector<FakeSource>::create(device(), options(1), listener_->handle(), ListenerKind::kMessages, make)
          .status();
  EXPECT_EQ(status.code, Code::kInvalidUsage);
  EXPECT_HAS(said.warnings(), "the handle is of a listener for one-sided communication") << said.all();
}

TEST_F(ManyCallers, AHandleIsGoodForSoManyCalls) {
  const test::Said said;
  const auto reception = Reception::create(device(), options(0), ListenerKind::kOneSided, 3);
  ASSERT_OK(reception);
  const ListenHandle& handle = (*reception)->handle();
  std::vector<Socket> calls;
  std::size_t taken = 0;
  const auto hear = [&] { (*reception)->hear([&](std::unique_ptr<Caller> /*caller*/) { ++taken; }); };
  for (std::size_t i = 0; i < 4; ++i) {
    Result<Socket> socket = Socket::connect(handleAddresses(handle).front());
    ASSERT_OK(socket);
    for (test::Patience patience; *socket->connected() != Io::kDone; patience.again()) {
    }
    auto request = makeMessage<ConnectRequest>(MessageType::kRequest);
    request.random = randomBytes();
    seal(request, handle.secret);
    Transfer transfer = transferOf(request);
    ASSERT_OK(socket->send(transfer));
    calls.push_back(std::move(*socket));
    const auto heard = [&] { return i >= 3 || taken != i; };
    for (test::Patience patience; !heard(); patience.again()) hear();
  }
  for (test::Patience patience; said.warnings().find("has called too often") == std::string::npos;
       patience.again())
    hear();
  EXPECT_EQ(taken, 3U);
}

}  // namespace
}  // namespace railwise::net
