#include "net/wireup/side_channel.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace railwise::net {
namespace {

// More frames than a correct peer sends before it waits for an answer.
constexpr std::size_t kMostFrames = 256;
constexpr std::size_t kMostOutboxBytes = std::size_t{1} << 20;

bool newestCounts(MessageType type) {
  return type == MessageType::kReconcile || type == MessageType::kRails || type == MessageType::kAskRails ||
         type == MessageType::kTrial;
}

}  // namespace

SideChannel::~SideChannel() {
  if (watcher_ != nullptr) watcher_->unwatch(*this);
}

void SideChannel::open(Socket socket, EventWatcher* watcher, const FrameKeys& keys) {
  socket_ = std::move(socket);
  keys_ = keys;
  socket_.keepAlive();
  if (watcher == nullptr) return;
  const Result<bool> watched = watcher->watch(*this);
  if (watched.ok() && *watched) watcher_ = watcher;
}

void SideChannel::sendBytes(std::span<const std::byte> frame) {
  const std::lock_guard lock(mutex_);
  if (hung_up_ || !socket_.valid()) return;
  if (outbox_.size() > kMostOutboxBytes) {
    problem_ = "nothing, nor does it take what it is sent";
    return hangUpLocked();
  }
  queueLocked(frame);
  flushLocked();
}

void SideChannel::queueLocked(std::span<const std::byte> frame) {
  const Hmac& key = direction_ == Direction::kSend ? keys_->from_sender : keys_->from_receiver;
  const std::size_t bytes = outbox_.size() + frame.size() + sizeof(FrameSeal);
  if (outbox_.capacity() < bytes)
    outbox_.reserve(2 * bytes);  // before ++sent_: the peer takes no gap in the numbers
  const FrameSeal seal = sealOf(frame, ++sent_, key);
  const auto seal_bytes = std::as_bytes(std::span(&seal, 1));
  outbox_.insert(outbox_.end(), frame.begin(), frame.end());
  outbox_.insert(outbox_.end(), seal_bytes.begin(), seal_bytes.end());
}

void SideChannel::flushLocked() {
  if (outbox_.empty() || !socket_.valid()) return;
  Transfer transfer = {outbox_, 0};
  const Result<Io> sent = socket_.send(transfer);
  if (!sent.ok() || *sent == Io::kClosed) {
    outbox_.clear();  // what the peer has sent before may still be there to be read
    return;
  }
  outbox_.erase(outbox_.begin(), outbox_.begin() + static_cast<std::ptrdiff_t>(transfer.moved));
}

void SideChannel::hangUpLocked() {
  hung_up_.store(true, std::memory_order_release);
  bell_.ring();
}

template <typename Frame>
void SideChannel::answerLocked(MessageType type) {
  auto answer = makeMessage<Frame>(type);
  answer.number = told_ = number_;
  queueLocked(std::as_bytes(std::span(&answer, 1)));
  flushLocked();
}

// A whole frame has arrived, with its seal: puts it into the inbox. False: it is no valid frame.
bool SideChannel::takeLocked() {
  FrameSeal seal;
  const std::size_t frame_bytes = partial_.size() - sizeof seal;
  std::memcpy(&seal, partial_.data() + frame_bytes, sizeof seal);
  const std::span<const std::byte> frame = std::span(partial_).first(frame_bytes);
  const Hmac& key = direction_ == Direction::kSend ? keys_->from_receiver : keys_->from_sender;
  problem_ = checkSeal(frame, seal, heard_ + 1, key);
  if (!problem_.empty()) return false;
  problem_ = checkFrame(frame);
  if (!problem_.empty()) return false;
  const auto header = frameOf<MessageHeader>(frame);
  if (header.type == MessageType::kBreak && direction_ == Direction::kReceive) {
    answerLocked<ArrivedFrame>(MessageType::kArrived);
    break_waits_ = true;
  }
  if (header.type == MessageType::kReconcile && direction_ == Direction::kSend)
    answerLocked<ArrivedFrame>(MessageType::kUnposted);
  // Of some frames only the newest counts, and a connection that does not look may collect many.
  const bool replaces = newestCounts(header.type) && !inbox_.empty() &&
                        frameOf<MessageHeader>(inbox_.back()).type == header.type;
  inbox_.emplace_back();  // may throw: from here on nothing does, and until here the frame can be taken again
  ++heard_;
  partial_.resize(frame_bytes);
  inbox_.back() = std::move(partial_);
  if (replaces) inbox_.erase(inbox_.end() - 2);
  partial_.clear();
  bell_.ring();
  if (inbox_.size() < kMostFrames) return true;
  problem_ = "more frames than anybody needs";
  return false;
}

// Reads what has arrived. False: nothing more will come.
bool SideChannel::readLocked() {
  for (;;) {
    std::size_t wanted = sizeof(MessageHeader);
    if (partial_.size() >= wanted) {
      const auto header = frameOf<MessageHeader>(partial_);
      wanted = frameBytes(header.type);
      if (wanted == 0 || header.magic != kMagic) {
        problem_ = "bytes that are no frame";
        return false;
      }
      wanted += sizeof(FrameSeal);
    }
    partial_.reserve(wanted);  // what the socket has given must find room
    std::byte bytes[kMaxFrameBytes + sizeof(FrameSeal)];
    Transfer transfer = {std::span(bytes).first(wanted - partial_.size()), 0};
    const Result<Io> got = socket_.receive(transfer);
    partial_.insert(partial_.end(), bytes, bytes + transfer.moved);
    if (!got.ok() || *got == Io::kClosed) return false;
    if (*got == Io::kAgain) return true;
    if (wanted > sizeof(MessageHeader) && partial_.size() == wanted && !takeLocked()) return false;
  }
}

bool SideChannel::serve(bool) {
  const std::lock_guard lock(mutex_);
  if (hung_up_ || !socket_.valid()) return false;
  if (readLocked()) return true;
  hangUpLocked();
  return false;
}

// The connection's thread may complete its last receive before it reads frames, and then not return for long.
// Until a break is answered, the sender is told what has arrived since.
bool SideChannel::tick() {
  const std::lock_guard lock(mutex_);
  if (break_waits_ && number_ != told_) answerLocked<ArrivedFrame>(MessageType::kArrived);
  return break_waits_ && !hung_up_;
}

std::optional<std::vector<std::byte>> SideChannel::next(bool look) {
  const std::lock_guard lock(mutex_);
  flushLocked();
  if ((look || watcher_ == nullptr) && !hung_up_ && socket_.valid() && !readLocked()) hangUpLocked();
  if (inbox_.empty()) return std::nullopt;
  std::vector<std::byte> frame = std::move(inbox_.front());
  inbox_.pop_front();
  return frame;
}

bool SideChannel::ended() {
  const std::lock_guard lock(mutex_);
  return hung_up_ && inbox_.empty();
}

std::string SideChannel::problem() {
  const std::lock_guard lock(mutex_);
  return problem_;
}

void SideChannel::breakIsAnswered() {
  const std::lock_guard lock(mutex_);
  break_waits_ = false;
}

void SideChannel::end() {
  const std::lock_guard lock(mutex_);
  flushLocked();
  socket_.shutdown();
}

}  // namespace railwise::net
