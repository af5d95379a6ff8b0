// Arbitrary bytes on the side channel. Without the keys no frame comes out of it. With the keys, as a hostile
// or broken peer has them, whatever comes out as a frame passes its checks, has the length of its kind, and
// what its fields index is there.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "net/paths/epoch_plan.h"
#include "net/wireup/side_channel.h"

namespace {

using namespace railwise::net;

void require(bool condition) {
  if (!condition) std::abort();
}

template <typename T>
T as(const std::vector<std::byte>& bytes) {
  require(bytes.size() == sizeof(T));
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// As both ends plan with what the other offers.
void useOffer(const EndInfo& end, int native) {
  require(native <= end.rails && end.rails <= kMaxRails);
  const PlanAnswer answer = planEpoch({end, native}, {end, native}, kMaxRails, 24, PathMemory(Patience(60)),
                                      railwise::Clock::now(), Purpose::kGoOn);
  if (!answer.plan) return;
  for (const EpochPlan::Lane& lane : answer.plan->lanes) {
    require(lane.local_rail < answer.plan->local.size() && answer.plan->local[lane.local_rail] < end.rails);
    require(lane.remote_rail < answer.plan->remote.size() &&
            answer.plan->remote[lane.remote_rail] < end.rails);
  }
}

void use(const std::vector<std::byte>& frame) {
  require(checkFrame(frame).empty());
  switch (as<MessageHeader>({frame.begin(), frame.begin() + sizeof(MessageHeader)}).type) {
    case MessageType::kReconcile: {
      const auto reconcile = as<ReconcileFrame>(frame);
      (void)fieldText(reconcile.reason);
      useOffer(reconcile.end, reconcile.native);
      require(reconcile.count <= kMostWords);
      break;
    }
    case MessageType::kRails: {
      const auto rails = as<RailsFrame>(frame);
      useOffer(rails.end, rails.native);
      break;
    }
    case MessageType::kPropose: {
      const auto propose = as<ProposeFrame>(frame);
      for (int i = 0; i < propose.end.queue_pairs; ++i) require(propose.pair[i].rail < propose.rails);
      break;
    }
    case MessageType::kClose:
      (void)fieldText(as<CloseFrame>(frame).reason);
      break;
    default:
      break;
  }
}

// The header of a kind of frame, so that the fuzzer gets past it.
std::vector<uint8_t> withHeader(const uint8_t* data, size_t size) {
  const auto type = static_cast<MessageType>(data[0] % 21);
  const MessageHeader header = {kMagic, railwise::kProtocol.newest, type,
                                static_cast<uint32_t>(frameBytes(type))};
  std::vector<uint8_t> bytes(std::max(frameBytes(type), sizeof header));
  std::memcpy(bytes.data(), &header, sizeof header);
  const size_t rest = std::min(size - 1, bytes.size() - sizeof header);
  std::memcpy(bytes.data() + sizeof header, data + 1, rest);
  return bytes;
}

const FrameKeys& keys() {
  static const FrameKeys made = Session{{{1}}, {{2}}, {{3}}}.frameKeys();
  return made;
}

// The frame with its seal.
std::vector<uint8_t> sealed(std::vector<uint8_t> frame, uint64_t number, Direction to) {
  const railwise::Hmac& key = to == Direction::kReceive ? keys().from_sender : keys().from_receiver;
  const FrameSeal seal = sealOf(std::as_bytes(std::span(frame)), number, 0, key);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(&seal);
  frame.insert(frame.end(), bytes, bytes + sizeof seal);
  return frame;
}

// How many frames came out.
int feed(const std::vector<uint8_t>& bytes, Direction direction) {
  int ends[2];
  require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  railwise::verbs::FatalFlag bell;
  const SharedNumber number = 7;
  SideChannel channel(bell, direction, number);
  channel.open(railwise::Socket(ends[0]), nullptr, keys());
  require(write(ends[1], bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  close(ends[1]);
  int frames = 0;
  for (; const auto frame = channel.next(); ++frames) use(*frame);
  (void)channel.tick();
  require(channel.ended());
  return frames;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const Direction direction = data[size - 1] % 2 == 0 ? Direction::kSend : Direction::kReceive;
  const std::vector<uint8_t> frame = withHeader(data, size);
  std::vector<uint8_t> bytes = sealed(frame, 1, direction);
  // Two frames, or one and something.
  const std::vector<uint8_t> more = data[1] % 2 == 0 ? sealed(withHeader(data + 1, size - 1), 2, direction)
                                                     : std::vector(data, data + size);
  std::vector<uint8_t> both = bytes;
  both.insert(both.end(), more.begin(), more.end());
  (void)feed(both, direction);
  // Nothing without the keys, with a changed bit, or with another number.
  require(feed({data, data + size}, direction) == 0);
  require(feed(sealed(frame, 2, direction), direction) == 0);
  const std::size_t bit = (data[size - 1] | data[size / 2] << 8) % (bytes.size() * 8);
  bytes[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
  require(feed(bytes, direction) == 0);
  return 0;
}
