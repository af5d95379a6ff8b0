#include "net/wireup/resumer.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "net/patience.h"

namespace railwise::net {
namespace {

constexpr int kCallersInKernel = 4096;
constexpr int kAdmittedAtOnce = 64;
constexpr std::size_t kMostStrangers = 32;
// A process that is about to end may still take a call, and a refusal may be a firewall's. A receiver has
// more time: its peer calls too.
constexpr int kSendersRefusals = 2;
constexpr int kReceiversRefusals = 4;
constexpr int kMostCut = 8;

// The listening descriptor of this process's Resumer; -1: there is none. A forked child closes its copy.
// Otherwise the child would take the calls for a parent that has died.
std::atomic<int> g_listening{-1};

// The pauses of a thousand connections that broke at once differ.
Clock::duration jitter(const SideChannel& channel, Clock::duration pause) {
  return pause * static_cast<int>(channel.resumption().id % 64) / 64;
}

void closeInChild() {
  if (const int fd = g_listening.exchange(-1); fd >= 0) close(fd);
}

}  // namespace

std::unique_ptr<Resumer> Resumer::create(EventWatcher& watcher) {
  std::unique_ptr<Resumer> made(new Resumer(watcher));
  Result<Socket> socket = Socket::listenEverywhere(0, kCallersInKernel);
  if (!socket.ok()) {
    RAILWISE_INFO(log::kNet, "side channels are not resumed: listening failed: %s",
                  std::strerror(socket.status().sys_errno));
    return nullptr;
  }
  made->socket_ = std::move(*socket);
  made->socket_.deferAccept();
  made->port_ = made->socket_.localAddress().port();
  static const int registered = pthread_atfork(nullptr, nullptr, closeInChild);
  if (registered == 0) g_listening = made->socket_.fd();
  const Result<bool> watched = watcher.watch(*made);
  if (!watched.ok() || !*watched) return nullptr;
  return made;
}

Resumer::~Resumer() {
  watcher_.unwatch(*this);
  if (processId() == owner_) {
    g_listening = -1;
    socket_.shutdown();
  } else {
    socket_.release();  // closeInChild() has closed it
  }
}

bool Resumer::enroll(SideChannel& channel) {
  if (processId() != owner_) return false;
  const std::lock_guard lock(mutex_);
  Enrolled& enrolled = enrolled_[{channel.resumption().id, channel.direction()}];
  if (enrolled.channel != nullptr) return false;
  enrolled.channel = &channel;
  enrolled.proven.close();  // too late: the sender calls again
  return true;
}

void Resumer::await(uint64_t id, const FrameKeys& keys) {
  if (processId() != owner_) return;
  const std::lock_guard lock(mutex_);
  Enrolled& enrolled = enrolled_[{id, Direction::kReceive}];
  if (enrolled.channel == nullptr) enrolled.keys = keys;
}

Socket Resumer::takeProven(uint64_t id) {
  if (processId() != owner_) return {};
  const std::lock_guard lock(mutex_);
  const auto found = enrolled_.find({id, Direction::kReceive});
  return found != enrolled_.end() ? std::move(found->second.proven) : Socket();
}

void Resumer::forget(uint64_t id) {
  if (processId() != owner_) return;
  const std::lock_guard lock(mutex_);
  const auto found = enrolled_.find({id, Direction::kReceive});
  if (found != enrolled_.end() && found->second.channel == nullptr) enrolled_.erase(found);
}

void Resumer::leave(SideChannel& channel) {
  if (processId() != owner_) return;
  const std::lock_guard lock(mutex_);
  enrolled_.erase({channel.resumption().id, channel.direction()});
}

void Resumer::noteBroken(const SideChannel& channel) {
  RAILWISE_INFO(log::kNet, "%s: the TCP connection of the side channel has broken",
                channel.resumption().name.c_str());
  watcher_.startTicks(*this);
}

// ---- callers

bool Resumer::serve(bool hung_up) {
  if (hung_up) return false;
  const std::lock_guard lock(mutex_);
  if (admitCallers()) return true;
  watcher_.pause(*this);
  deaf_until_ = Clock::now() + Patience::kDeaf;
  return true;
}

// False: there is no descriptor for a caller.
bool Resumer::admitCallers() {
  for (int i = 0; i < kAdmittedAtOnce; ++i) {
    Result<Socket> socket = socket_.accept();
    if (!socket.ok()) return false;
    if (!socket->valid()) return true;
    auto caller = std::make_unique<Caller>();
    caller->socket = std::move(*socket);
    caller->deadline = Deadline::after(Patience::kCallerSpeaks);
    caller->transfer = transferOf(caller->hello);
    if (!keeps(caller)) continue;
    if (strangers_.size() >= kMostStrangers) strangers_.pop_front();
    strangers_.push_back(std::move(caller));
  }
  return true;
}

Resumer::Hearing Resumer::hear(Caller& caller) {
  const Result<Io> heard = caller.socket.receive(caller.transfer);
  if (!heard.ok() || *heard == Io::kClosed || caller.deadline.passed()) return Hearing::kDrop;
  return *heard == Io::kAgain ? Hearing::kWait : Hearing::kWhole;
}

// Hears a stranger. False: it is a stranger no more.
bool Resumer::keeps(std::unique_ptr<Caller>& stranger) {
  const Hearing heard = hear(*stranger);
  if (heard == Hearing::kDrop) return false;
  if (stranger->transfer.moved >= sizeof(MessageHeader) &&
      !checkHeader(stranger->hello.header, MessageType::kResumeHello, sizeof stranger->hello).empty())
    return false;
  if (heard == Hearing::kWait) return true;
  greet(std::move(stranger));
  return false;
}

// The caller's hello has arrived. If it is right, the caller's proof is awaited.
void Resumer::greet(std::unique_ptr<Caller> caller) {
  const ResumeHello& hello = caller->hello;
  caller->answer = makeMessage<ResumeAnswer>(MessageType::kResumeAnswer);
  const auto found =
      enrolled_.find({hello.id, hello.from_sender != 0 ? Direction::kReceive : Direction::kSend});
  if (found != enrolled_.end()) {
    Enrolled& enrolled = found->second;
    if (!isTrue(hello, enrolled.peerKey()) || hello.call <= enrolled.peer_calls) return;
    enrolled.peer_calls = hello.call;
    caller->answer.random = randomBytes();
    caller->answer.known = enrolled.known() ? 1 : 0;
    caller->answer.heard = enrolled.heard();
    caller->resumed = enrolled.resumed();
    seal(caller->answer, hello, enrolled.ownKey());
  }
  Transfer answer = transferOf(caller->answer);
  const Result<Io> sent = caller->socket.send(answer);  // fits the empty socket buffer
  if (!sent.ok() || *sent != Io::kDone || caller->answer.known == 0) return;
  caller->transfer = transferOf(caller->proof);
  found->second.greeted = std::move(caller);
}

void Resumer::hearGreeted(Enrolled& enrolled) {
  const Hearing heard = hear(*enrolled.greeted);
  if (heard == Hearing::kWait) return;
  const std::unique_ptr<Caller> caller = std::move(enrolled.greeted);
  if (heard == Hearing::kWhole) onProof(enrolled, *caller);
}

void Resumer::onProof(Enrolled& enrolled, Caller& caller) {
  if (enrolled.resumed() != caller.resumed ||  // a newer call has overtaken this one
      !checkHeader(caller.proof.header, MessageType::kResumeProof, sizeof caller.proof).empty() ||
      !isTrue(caller.proof, caller.answer, enrolled.peerKey()))
    return;
  if (enrolled.channel == nullptr) {
    enrolled.proven = std::move(caller.socket);
    return;
  }
  SideChannel& channel = *enrolled.channel;
  if (caller.hello.from_sender == 0) return channel.doubtSocket();
  channel.resume(std::move(caller.socket), caller.proof.heard, caller.answer.heard);
}

// ---- calls

bool Resumer::tick() {
  const std::lock_guard lock(mutex_);
  if (deaf_until_ && Clock::now() >= *deaf_until_) {
    deaf_until_.reset();
    if (!watcher_.proceed(*this)) deaf_until_ = Clock::now() + Patience::kDeaf;
  }
  for (std::size_t i = 0; i < strangers_.size();) {
    if (keeps(strangers_[i])) ++i;
    else strangers_.erase(strangers_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  bool calling = false;
  for (auto& [key, enrolled] : enrolled_) {
    if (enrolled.greeted != nullptr) hearGreeted(enrolled);
    if (enrolled.channel == nullptr) {
      calling = calling || enrolled.greeted != nullptr;
      continue;
    }
    if (enrolled.channel->needsSocket()) advance(enrolled);
    else if (enrolled.call != nullptr) retire(enrolled);
    calling = calling || enrolled.call != nullptr || enrolled.greeted != nullptr;
  }
  return calling || !strangers_.empty() || deaf_until_.has_value();
}

// The channel has a TCP connection again. If that breaks at once, the pauses go on to grow.
void Resumer::retire(Enrolled& enrolled) {
  Call& call = *enrolled.call;
  call.cut = 0;
  if (call.stage != Call::Stage::kPause) later(*enrolled.channel, call);
  if (Clock::now() > call.due + Patience::kProbation) enrolled.call.reset();
}

void Resumer::advance(Enrolled& enrolled) {
  SideChannel& channel = *enrolled.channel;
  if (enrolled.call == nullptr) {
    enrolled.call = std::make_unique<Call>();
    enrolled.call->pause = Patience::kFirstResumption;
    enrolled.call->due = Clock::now() + jitter(channel, Patience::kFirstResumption);
  }
  Call& call = *enrolled.call;
  const bool late = Clock::now() >= call.due;
  switch (call.stage) {
    case Call::Stage::kPause:
      if (late) place(channel, call);
      return;
    case Call::Stage::kConnecting: {
      const Result<Io> connected = call.socket.connected();
      if (!connected.ok()) return failed(channel, call, connected.status().sys_errno);
      if (*connected == Io::kAgain) return late ? failed(channel, call, ETIMEDOUT) : void();
      channel.setReachable(true);
      call.hello = makeMessage<ResumeHello>(MessageType::kResumeHello);
      call.hello.random = randomBytes();
      call.hello.id = channel.resumption().id;
      call.hello.from_sender = channel.direction() == Direction::kSend ? 1 : 0;
      call.hello.call = ++enrolled.calls;
      seal(call.hello, channel.ownKey());
      Transfer hello = transferOf(call.hello);
      const Result<Io> sent = call.socket.send(hello);  // fits the empty socket buffer
      if (!sent.ok() || *sent != Io::kDone) return cut(channel, call);
      call.transfer = transferOf(call.answer);
      call.stage = Call::Stage::kAnswer;
      call.due = Clock::now() + Patience::kCalledAnswers;
      return;
    }
    case Call::Stage::kAnswer: {
      const Result<Io> heard = call.socket.receive(call.transfer);
      if (!heard.ok() || *heard == Io::kClosed) return cut(channel, call);
      if (*heard == Io::kAgain) return late ? later(channel, call) : void();
      call.cut = 0;
      return onAnswer(channel, call);
    }
  }
}

void Resumer::place(SideChannel& channel, Call& call) {
  Result<Socket> socket = Socket::connect(channel.peerAddress());
  if (!socket.ok()) return failed(channel, call, socket.status().sys_errno);
  call.socket = std::move(*socket);
  call.stage = Call::Stage::kConnecting;
  call.due = Clock::now() + Patience::kCallerSpeaks;
}

void Resumer::onAnswer(SideChannel& channel, Call& call) {
  const bool answer = checkHeader(call.answer.header, MessageType::kResumeAnswer, sizeof call.answer).empty();
  if (!answer || call.answer.known == 0) return refused(channel, call);  // not: another program has the port
  if (!isTrue(call.answer, call.hello, channel.peerKey())) return later(channel, call);
  if (const Clock::time_point now = Clock::now();
      !channel.expectsFrames() && now - warned_ > Patience::kWarnAgain) {
    warned_ = now;
    RAILWISE_WARN(
        "%s: the TCP connection beside the data has broken: data go on over RDMA, and the connection is made "
        "again (more such lines at NCCL_DEBUG=INFO)",
        channel.resumption().name.c_str());
  }
  auto proof = makeMessage<ResumeProof>(MessageType::kResumeProof);
  proof.heard = channel.heard();
  seal(proof, call.answer, channel.ownKey());
  Transfer transfer = transferOf(proof);
  const Result<Io> sent = call.socket.send(transfer);  // fits the socket buffer
  if (!sent.ok() || *sent != Io::kDone || channel.direction() == Direction::kReceive)
    return later(channel, call);  // the sender resumes it
  Socket fresh = std::move(call.socket);
  later(channel, call);  // the next call, if this TCP connection breaks at once
  channel.resume(std::move(fresh), call.answer.heard, proof.heard);
}

void Resumer::later(const SideChannel& channel, Call& call) {
  call.refused = 0;
  call.socket.close();
  call.stage = Call::Stage::kPause;
  call.due = Clock::now() + call.pause + jitter(channel, call.pause);
  call.pause = std::min(2 * call.pause, Patience::kLongestResumption);
}

void Resumer::failed(SideChannel& channel, Call& call, int error) {
  if (error == ECONNREFUSED) return refused(channel, call);
  const bool own =
      error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM || error == EADDRNOTAVAIL;
  call.cut = 0;
  if (!own) channel.setReachable(false);
  later(channel, call);
}

void Resumer::cut(SideChannel& channel, Call& call) {
  later(channel, call);
  if (++call.cut < kMostCut) return;
  call.cut = 0;
  channel.peerIsGone();
}

void Resumer::refused(SideChannel& channel, Call& call) {
  const int most = channel.direction() == Direction::kSend ? kSendersRefusals : kReceiversRefusals;
  if (++call.refused >= most) {
    later(channel, call);
    return channel.peerIsGone();
  }
  call.socket.close();
  call.stage = Call::Stage::kPause;
  call.due = Clock::now() + Patience::kFirstResumption;
}

}  // namespace railwise::net
