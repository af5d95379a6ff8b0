#include "net/wireup/side_channel.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "net/patience.h"
#include "net/wireup/resumer.h"

namespace railwise::net {
namespace {

// More frames than a correct peer sends before it waits for an answer.
constexpr std::size_t kMostFrames = 256;
constexpr std::size_t kMostKeptBytes = std::size_t{1} << 20;
// An end keeps its frames until the peer is known to have them. After so many frames of a user the peer says
// so, if its own user says nothing.
constexpr int kMostUnanswered = 64;

bool newestCounts(MessageType type) {
  return type == MessageType::kReconcile || type == MessageType::kRails || type == MessageType::kAskRails ||
         type == MessageType::kTrial;
}

// So many times bytes that are no frame only break the channel.
constexpr int kMostForged = 16;

}  // namespace

SideChannel::~SideChannel() {
  if (resumption_.resumer != nullptr) resumption_.resumer->leave(*this);  // before it could watch again
  if (watcher_ != nullptr) watcher_->unwatch(*this);
}

void SideChannel::open(Socket socket, EventWatcher* watcher, const FrameKeys& keys, Resumption resumption) {
  socket_ = std::move(socket);
  keys_ = keys;
  socket_.keepAlive();
  if (watcher == nullptr) return;
  watcher_ = watcher;  // from here on the watcher's thread may use this object
  peer_address_ = socket_.peerAddress().atPort(resumption.peer_port);
  if (resumption.resumer != nullptr && resumption.peer_port != 0 && peer_address_.valid()) {
    resumption_ = std::move(resumption);
    if (!resumption_.resumer->enroll(*this)) resumption_.resumer = nullptr;
  }
  const Result<bool> watched = watcher->watch(*this);
  if (watched.ok() && *watched) return;
  if (resumption_.resumer != nullptr) resumption_.resumer->leave(*this);
  resumption_.resumer = nullptr;
  watcher_ = nullptr;
}

void SideChannel::sendBytes(std::span<const std::byte> frame) {
  const std::lock_guard lock(mutex_);
  if (hung_up_ || !opened()) return;
  queueLocked(frame);
  flushLocked();
}

void SideChannel::queueLocked(std::span<const std::byte> frame) {
  if (kept_bytes_ > kMostKeptBytes) {
    clogged_ = for_good_ = true;
    return hangUpLocked();
  }
  const FrameSeal seal = sealOf(frame, sent_ + 1, heard_, ownKey());
  const auto seal_bytes = std::as_bytes(std::span(&seal, 1));
  std::vector<std::byte> bytes;
  bytes.reserve(frame.size() + sizeof seal);
  bytes.insert(bytes.end(), frame.begin(), frame.end());
  bytes.insert(bytes.end(), seal_bytes.begin(), seal_bytes.end());
  kept_.push_back(std::move(bytes));
  kept_bytes_ += kept_.back().size();
  unanswered_ = 0;
  ++sent_;  // last: the peer takes no gap in the numbers
}

bool SideChannel::unheard(MessageType type) {
  const std::lock_guard lock(mutex_);
  uint64_t number = sent_ - kept_.size();
  return std::any_of(kept_.begin(), kept_.end(), [&](const std::vector<std::byte>& frame) {
    return ++number > peer_heard_ &&
           frameOf<MessageHeader>(std::span(frame).first(sizeof(MessageHeader))).type == type;
  });
}

void SideChannel::flushLocked() {
  while (flushed_ < kept_.size() && socket_.valid() && !broken_) {
    Transfer transfer = {kept_[flushed_], flushed_bytes_};
    const Result<Io> sent = socket_.send(transfer);
    flushed_bytes_ = transfer.moved;
    if (!sent.ok() || *sent != Io::kDone) return;  // who reads finds out when the connection has ended
    ++flushed_;
    flushed_bytes_ = 0;
  }
}

// The peer has all frames up to the number `heard`. False: it cannot have. A frame that it has heard over an
// earlier TCP connection stays until it is in the socket: a half of a frame must not go.
bool SideChannel::forgetHeardLocked(uint64_t heard) {
  if (heard > sent_) return false;
  peer_heard_ = std::max(peer_heard_, heard);
  const uint64_t before = sent_ - kept_.size();
  const std::size_t count = heard > before ? std::min<std::size_t>(heard - before, flushed_) : 0;
  for (std::size_t i = 0; i < count; ++i) {
    kept_bytes_ -= kept_.front().size();
    kept_.pop_front();
  }
  flushed_ -= count;
  return true;
}

// No new TCP connection is needed any more.
void SideChannel::stopCallingLocked() {
  broken_.store(false, std::memory_order_release);
  doubted_.store(false, std::memory_order_relaxed);
  unreachable_.store(false, std::memory_order_release);
}

void SideChannel::hangUpLocked() {
  stopCallingLocked();
  hung_up_.store(true, std::memory_order_release);
  bell_.ring();
}

void SideChannel::tellLocked(MessageType type) {
  auto frame = makeMessage<ArrivedFrame>(type);
  frame.number = told_ = number_;
  queueLocked(std::as_bytes(std::span(&frame, 1)));
  flushLocked();
}

// Answers a frame of the peer that wants it.
void SideChannel::answerLocked(MessageType type) {
  if (direction_ == Direction::kReceive && type == MessageType::kBreak) {
    tellLocked(MessageType::kArrived);
    break_waits_ = true;
  }
  if (direction_ == Direction::kSend && (type == MessageType::kReconcile || type == MessageType::kRails))
    tellLocked(MessageType::kUnposted);
  if (type == MessageType::kUser && ++unanswered_ >= kMostUnanswered)
    tellLocked(direction_ == Direction::kReceive ? MessageType::kArrived : MessageType::kUnposted);
}

// A whole frame has arrived, with its seal: puts it into the inbox. False: it is no valid frame.
bool SideChannel::takeLocked() {
  FrameSeal seal;
  const std::size_t frame_bytes = partial_.size() - sizeof seal;
  std::memcpy(&seal, partial_.data() + frame_bytes, sizeof seal);
  const std::span<const std::byte> frame = std::span(partial_).first(frame_bytes);
  problem_ = checkSeal(frame, seal, due_, peerKey());
  if (!problem_.empty()) return false;
  if (due_ <= heard_) {  // it came over an earlier TCP connection too
    ++due_;
    partial_.clear();
    return true;
  }
  problem_ = checkFrame(frame);
  if (problem_.empty() && !forgetHeardLocked(seal.heard)) problem_ = "that it has frames that were not sent";
  if (!problem_.empty()) {
    for_good_ = true;  // the MAC is right: the peer said so
    return false;
  }
  const auto header = frameOf<MessageHeader>(frame);
  inbox_.emplace_back();
  ++heard_;  // the answer says so
  try {
    answerLocked(header.type);
  } catch (...) {  // without memory the frame can be taken again
    --heard_;
    inbox_.pop_back();
    throw;
  }
  // Of some frames only the newest counts, and a connection that does not look may collect many.
  const bool replaces = newestCounts(header.type) && inbox_.size() > 1 &&
                        frameOf<MessageHeader>(inbox_[inbox_.size() - 2]).type == header.type;
  due_ = heard_ + 1;
  gone_ = false;
  silent_since_ = Clock::now();
  patience_ = Patience::kFrame;
  partial_.resize(frame_bytes);
  inbox_.back() = std::move(partial_);
  if (replaces) inbox_.erase(inbox_.end() - 2);
  partial_.clear();
  bell_.ring();
  if (header.type == MessageType::kClose) peer_closed_ = true;
  const bool of_user = header.type == MessageType::kUser;
  if (of_user) ++user_frames_;
  if (of_user ? user_frames_ < kMostUserFrames : inbox_.size() - user_frames_ < kMostFrames) return true;
  for_good_ = true;
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

// Nothing more will come over this TCP connection. From the watcher's thread.
void SideChannel::socketEndedLocked() {
  if (!resumable() || peer_closed_ || for_good_) return hangUpLocked();
  if (!problem_.empty()) {
    if (++forged_ > kMostForged) return hangUpLocked();
    RAILWISE_WARN("%s: somebody sent %s over the side channel: making a new TCP connection",
                  resumption_.name.c_str(), problem_.c_str());
    problem_.clear();
  }
  breakLocked();
}

// The Resumer may need the descriptor.
void SideChannel::breakLocked() {
  partial_.clear();
  watcher_->pause(*this);
  socket_.close();
  broken_.store(true, std::memory_order_release);
  resumption_.resumer->noteBroken(*this);
  bell_.ring();
}

bool SideChannel::serve(bool) {
  const std::lock_guard lock(mutex_);
  if (hung_up_) return false;
  if (broken_) return true;  // an event of the TCP connection before
  if (readLocked()) return true;
  socketEndedLocked();
  return !hung_up_;
}

// The connection's thread may complete its last receive before it reads frames, and then not return for long.
// Until a break is answered, the sender is told what has arrived since.
bool SideChannel::tick() {
  const std::lock_guard lock(mutex_);
  if (break_waits_ && number_ != told_) tellLocked(MessageType::kArrived);
  flushLocked();  // what a new TCP connection did not take at once
  return (break_waits_ || (flushed_ < kept_.size() && !broken_)) && !hung_up_;
}

std::optional<std::vector<std::byte>> SideChannel::next(bool look) {
  const std::lock_guard lock(mutex_);
  flushLocked();
  if ((look || watcher_ == nullptr) && !hung_up_ && !broken_ && socket_.valid() && !readLocked()) {
    if (resumable()) socket_.shutdown();  // wakes the watcher
    else hangUpLocked();
  }
  if (inbox_.empty()) return std::nullopt;
  std::vector<std::byte> frame = std::move(inbox_.front());
  inbox_.pop_front();
  const auto header = frameOf<MessageHeader>(std::span(frame).first(sizeof(MessageHeader)));
  if (header.type == MessageType::kUser) --user_frames_;
  return frame;
}

bool SideChannel::ended() {
  const std::lock_guard lock(mutex_);
  return hung_up_ && inbox_.empty();
}

void SideChannel::expectFrames(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  silent_since_ = now;
  patience_ = Patience::kFrame;
  expecting_.store(true, std::memory_order_relaxed);
}

void SideChannel::suspect(Clock::time_point now) {
  {
    const std::lock_guard lock(mutex_);
    if (hung_up_ || needsSocket() || now - silent_since_ < patience_ || !resumable()) return;
    silent_since_ = now;
    patience_ = std::min(2 * patience_, Patience::kLongestFrame);
    doubtSocket();
  }
  resumption_.resumer->startCalling();  // takes the watcher's lock, which comes before this object's
}

std::string SideChannel::problem() {
  const std::lock_guard lock(mutex_);
  if (clogged_) return "does not take what it is sent over the side channel";
  return problem_.empty() ? "" : "sent " + problem_ + " over the side channel";
}

void SideChannel::breakIsAnswered() {
  const std::lock_guard lock(mutex_);
  break_waits_ = false;
}

uint64_t SideChannel::heard() {
  const std::lock_guard lock(mutex_);
  return heard_;
}

void SideChannel::resume(Socket socket, uint64_t heard, uint64_t told) {
  const std::lock_guard lock(mutex_);
  // An old call, which a newer one has overtaken: the peer has told of more frames since.
  if (hung_up_ || heard < sent_ - kept_.size()) return;
  if (heard > sent_) {
    problem_ = "that it has frames that were not sent";
    return hangUpLocked();
  }
  if (!broken_) watcher_->pause(*this);  // while the socket still has its descriptor
  flushed_ = kept_.size();               // any of them may have arrived
  (void)forgetHeardLocked(heard);
  flushed_ = flushed_bytes_ = 0;
  due_ = told + 1;
  gone_ = false;
  silent_since_ = Clock::now();
  partial_.clear();
  socket_ = std::move(socket);
  socket_.keepAlive();
  ++resumed_;
  if (!watcher_->proceed(*this)) return breakLocked();
  stopCallingLocked();
  RAILWISE_INFO(log::kNet, "%s: the side channel goes on over a new TCP connection",
                resumption_.name.c_str());
  bell_.ring();
  flushLocked();
  if (for_good_) socket_.shutdown();  // this end has ended the channel meanwhile: so does the peer now
  watcher_->startTicks(*this);        // a break may wait for an answer
}

void SideChannel::peerIsGone() {
  const std::lock_guard lock(mutex_);
  if (broken_ || std::exchange(gone_, true)) return hangUpLocked();
  stopCallingLocked();
}

void SideChannel::end() {
  const std::lock_guard lock(mutex_);
  flushLocked();
  for_good_ = true;
  socket_.shutdown();
}

}  // namespace railwise::net
