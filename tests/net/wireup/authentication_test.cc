// Every bit of what the handshake's MACs cover, and what they are bound to.
#include "net/wireup/authentication.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <set>

namespace railwise::net {
namespace {

struct AuthenticationTest : testing::Test {
  AuthenticationTest() {
    request_.random = randomBytes();
    copyText(request_.end.host, "node1:7");
    seal(request_, secret_);
    reply_.random = randomBytes();
    reply_.accepted = 1;
    seal(reply_, request_, secret_);
    ready_.accepted = 1;
    seal(ready_, reply_, secret_);
  }

  // Is no changed bit of `message` accepted?
  template <typename Message, typename Check>
  static void expectEveryBitCounts(const Message& message, std::size_t bytes, Check&& accepted) {
    ASSERT_TRUE(accepted(message));
    for (std::size_t bit = 0; bit < bytes * 8; ++bit) {
      Message changed = message;
      reinterpret_cast<unsigned char*>(&changed)[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
      ASSERT_FALSE(accepted(changed)) << "bit " << bit;
    }
  }

  const Secret secret_ = makeSecret();
  ConnectRequest request_ = makeMessage<ConnectRequest>(MessageType::kRequest);
  ConnectReply reply_ = makeMessage<ConnectReply>(MessageType::kReply);
  ConnectReady ready_ = makeMessage<ConnectReady>(MessageType::kReady);
};

TEST_F(AuthenticationTest, CoversEveryBitOfTheHello) {
  expectEveryBitCounts(request_, kHelloBytes,
                       [&](const ConnectRequest& request) { return helloIsTrue(request, secret_); });
}

TEST_F(AuthenticationTest, CoversEveryBitOfEveryMessage) {
  expectEveryBitCounts(request_, sizeof request_,
                       [&](const ConnectRequest& request) { return isTrue(request, secret_); });
  expectEveryBitCounts(reply_, sizeof reply_,
                       [&](const ConnectReply& reply) { return isTrue(reply, request_, secret_); });
  expectEveryBitCounts(ready_, sizeof ready_,
                       [&](const ConnectReady& ready) { return isTrue(ready, reply_, secret_); });
}

TEST_F(AuthenticationTest, NeedsTheSecret) {
  const Secret other = makeSecret();
  EXPECT_FALSE(helloIsTrue(request_, other));
  EXPECT_FALSE(isTrue(request_, other));
  EXPECT_FALSE(isTrue(reply_, request_, other));
  EXPECT_FALSE(isTrue(ready_, reply_, other));
}

TEST_F(AuthenticationTest, AnAnswerOfAnotherHandshakeIsNone) {
  ConnectRequest later = request_;
  later.random = randomBytes();
  seal(later, secret_);
  EXPECT_FALSE(isTrue(reply_, later, secret_));
  ConnectReply answer = reply_;
  answer.random = randomBytes();
  seal(answer, request_, secret_);
  EXPECT_FALSE(isTrue(ready_, answer, secret_));
}

TEST_F(AuthenticationTest, TheSecretIsInNoMessage) {
  const auto contains = [&](const auto& message) {
    return memmem(&message, sizeof message, secret_.bytes, sizeof secret_.bytes) != nullptr;
  };
  EXPECT_FALSE(contains(request_));
  EXPECT_FALSE(contains(reply_));
  EXPECT_FALSE(contains(ready_));
}

TEST_F(AuthenticationTest, KeysAndProofsDifferWithWhateverTheyAreMadeOf) {
  const Session session = {secret_, request_.random, reply_.random};
  Session others[3] = {session, session, session};
  others[0].secret = makeSecret();
  others[1].connector = randomBytes();
  others[2].listener = randomBytes();
  std::set<Digest> keys = {session.frameKeys().from_sender.digest(),
                           session.frameKeys().from_receiver.digest()};
  std::set<std::string> proofs;
  const auto prove = [&](const Session& from, uint64_t epoch, uint32_t index) {
    const Mac proof = from.callProof(epoch, index);
    proofs.emplace(reinterpret_cast<const char*>(proof.bytes), sizeof proof.bytes);
  };
  prove(session, 1, 0);
  prove(session, 1, 1);
  prove(session, 2, 0);
  for (const Session& other : others) {
    keys.insert(other.frameKeys().from_sender.digest());
    keys.insert(other.frameKeys().from_receiver.digest());
    prove(other, 1, 0);
  }
  EXPECT_EQ(keys.size(), 8U);
  EXPECT_EQ(proofs.size(), 6U);
  EXPECT_TRUE(sameMac(session.callProof(1, 3), Session(session).callProof(1, 3)));
}

// Queue pairs of the same numbers begin elsewhere in each connection and epoch, at both ends alike.
TEST_F(AuthenticationTest, PacketNumbersAreOfTheSessionAndTheEpoch) {
  const Session session = {secret_, request_.random, reply_.random};
  std::set<uint32_t> first;
  for (uint64_t epoch = 1; epoch <= 3; ++epoch) first.insert(session.firstPacket(epoch, 7));
  EXPECT_EQ(first.size(), 3U);
  EXPECT_EQ(session.firstPacket(3, 7), Session(session).firstPacket(3, 7));
  // One of 2^24 sessions has the same numbers: of a thousand, at most a few.
  std::set<uint32_t> sessions;
  for (int i = 0; i < 1000; ++i)
    sessions.insert(Session{secret_, request_.random, randomBytes()}.firstPacket(1, 7));
  EXPECT_GT(sessions.size(), 990U);
  EXPECT_LT(*sessions.rbegin(), 1U << 24);
}

TEST_F(AuthenticationTest, ThePairIdIsOfTheSecretAndDoesNotTellIt) {
  EXPECT_EQ(pairId(secret_, 0), pairId(Secret(secret_), 0));
  EXPECT_NE(pairId(secret_, 0), pairId(makeSecret(), 0));
  const uint64_t id = pairId(secret_, 0);
  EXPECT_NE(std::memcmp(&id, secret_.bytes, sizeof id), 0);
  EXPECT_NE(std::memcmp(&id, secret_.bytes + sizeof id, sizeof id), 0);
}

TEST(Secret, IsNeverZeroAndNeverTheSame) {
  const Secret none = {};
  EXPECT_FALSE(sameSecret(makeSecret(), none));
  EXPECT_FALSE(sameSecret(makeSecret(), makeSecret()));
}

}  // namespace
}  // namespace railwise::net
