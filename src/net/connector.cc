#include "net/connector.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "net/patience.h"
#include "net/wireup/asymmetry.h"

namespace railwise::net {
namespace {

// A call that is refused, cut, or answered by somebody who is not the peer is tried again: the listener may
// have been full of strangers, or somebody on the way changes bytes. Ten calls of each address with growing
// pauses take some three seconds.
constexpr std::size_t kMaxCalls = 10;

bool worthAnotherCall(int error) {
  return error == ECONNREFUSED || error == ECONNRESET || error == ETIMEDOUT || error == EPIPE ||
         error == EHOSTUNREACH || error == ENETUNREACH || error == EAGAIN;
}

}  // namespace

Status Connecting::check(const Device& device, const ConnectionOptions& options, const ListenHandle& handle,
                         ListenerKind kind) {
  const std::string problem = checkHandle(handle, kind);
  if (problem.empty()) return Status::success();
  RAILWISE_WARN("%s at %s: cannot connect: %s", device.name(), options.local_host.c_str(), problem.c_str());
  return {Code::kInvalidUsage, 0};
}

Status Connecting::begin() {
  RAILWISE_TRY(makeEnd());
  note("nothing heard");
  record::noteEvent(record::EventKind::kConnecting, fieldText(handle_.host), {.connection = &link().shown()});
  return Status::success();
}

Status Connecting::makeEnd() {
  RAILWISE_TRY(remakeEnd());
  link().record().openPeer(fieldText(handle_.host), pairId(handle_.secret, options_.user_word));
  return Status::success();
}

bool Connecting::abandoned() const {
  return deadline_.passed() && Clock::now() - last_asked_ > Patience::kAbandoned;
}

Result<bool> Connecting::advanceEnd() {
  last_asked_ = Clock::now();
  while (stage_ != Stage::kDone) {
    const Result<Io> stepped = step();
    if (!stepped.ok()) return stepped.status();
    if (*stepped == Io::kDone) continue;
    if (deadline_.passed()) {
      const std::string late =
          " in RAILWISE_CONNECT_TIMEOUT=" + std::to_string(options_.config.connect_timeout_s) + " s";
      return stage_ == Stage::kEstablishing ? giveUp("no path to the peer's queue pairs" + late, 0)
                                            : failed("no answer" + late, 0);
    }
    warnOfSlowConnect(options_.config.slow_connect_s);
    return false;
  }
  link().attach(std::move(socket_), session_, reply_.end.resume_port);
  census_.up();
  const auto us = [&](Clock::time_point at) {
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(at - begun_).count());
  };
  record::noteEvent(
      record::EventKind::kConnected, link().peer,
      {.connection = &link().shown(), .numbers = {us(called_at_), us(replied_at_), us(Clock::now())}});
  return true;
}

// kDone: the next stage has begun, call again. kAgain: there is nothing more to do now.
Result<Io> Connecting::step() {
  switch (stage_) {
    case Stage::kIdle:
      if (Clock::now() < next_call_) return Io::kAgain;
      RAILWISE_TRY(call());
      return Io::kDone;
    case Stage::kConnecting: {
      const Result<Io> connected = socket_.connected();
      if (!connected.ok()) {
        RAILWISE_TRY(callFailed(connected.status().sys_errno));
        return Io::kAgain;
      }
      if (*connected == Io::kAgain && addresses_.size() > 1 && Clock::now() >= call_ends_) {
        RAILWISE_TRY(callFailed(ETIMEDOUT));
        return Io::kAgain;
      }
      if (*connected == Io::kDone) {
        stage_ = Stage::kSendingRequest;
        called_at_ = Clock::now();
        note("it takes the call, but does not answer");
      }
      return *connected;
    }
    case Stage::kSendingRequest:
    case Stage::kSendingReady: {
      const Result<Io> sent = socket_.send(transfer_);
      if (!sent.ok() || *sent == Io::kClosed) {
        RAILWISE_TRY(callFailed(sent.ok() ? ECONNRESET : sent.status().sys_errno));
        return Io::kAgain;
      }
      if (*sent == Io::kDone && stage_ == Stage::kSendingRequest) transfer_ = transferOf(reply_);
      if (*sent == Io::kDone)
        stage_ = stage_ == Stage::kSendingRequest ? Stage::kAwaitingReply : Stage::kDone;
      return *sent;
    }
    case Stage::kAwaitingReply:
      return onReply();
    case Stage::kEstablishing:
      return establish();
    case Stage::kDone:
      return Io::kDone;
  }
  return Status{Code::kInternal, 0};
}

Status Connecting::call() {
  // This end describes itself before it calls: the listener would take a caller that falls silent for a
  // stranger.
  request_ = makeMessage<ConnectRequest>(MessageType::kRequest);
  request_.header.version = commonVersion(handle_);
  request_.random = randomBytes();
  RAILWISE_TRY(chooser().describe(request_.end));
  seal(request_, handle_.secret);
  ++calls_;
  call_ends_ = Clock::now() + Patience::kCall;
  Result<Socket> socket = Socket::connect(address());
  if (!socket.ok()) return callFailed(socket.status().sys_errno);
  socket_ = std::move(*socket);
  transfer_ = transferOf(request_);
  stage_ = Stage::kConnecting;
  return Status::success();
}

Result<Io> Connecting::onReply() {
  const Result<Io> heard = socket_.receive(transfer_);
  if (transfer_.moved >= sizeof(MessageHeader)) {
    const std::string problem = checkHeader(reply_.header, MessageType::kReply, sizeof reply_);
    if (!problem.empty()) {
      RAILWISE_TRY(answerIsForged(problem));
      return Io::kAgain;
    }
  }
  if (!heard.ok() || *heard == Io::kClosed) {
    RAILWISE_TRY(callFailed(heard.ok() ? ECONNRESET : heard.status().sys_errno));
    return Io::kAgain;
  }
  if (*heard == Io::kAgain) return Io::kAgain;
  if (!isTrue(reply_, request_, handle_.secret)) {
    RAILWISE_TRY(answerIsForged("the answer does not prove that it knows the secret of the handle"));
    return Io::kAgain;
  }
  session_ = {handle_.secret, request_.random, reply_.random};
  if (reply_.accepted != 1) return failed("refused: " + fieldText(reply_.reason), 0);
  if (const std::string problem = checkFirstEnd(reply_.end); !problem.empty())
    return giveUp("the reply has " + problem, 0);
  if (const std::string problem = checkFabric(request_.end, reply_.end); !problem.empty())
    return giveUp(problem, 0);
  if (reply_.end.rails != handle_.rails)
    return giveUp("the reply has another number of rails than the handle", 0);
  if (const std::string problem = checkFirstPairing(request_.end, reply_.end); !problem.empty())
    return giveUp("the reply has " + problem, 0);
  const StrictMode strict = parseStrictMode(options_.config.strict).value_or(StrictMode());
  if (const std::string problem = refusedDifference(strict, request_.end, reply_.end); !problem.empty())
    return giveUp("RAILWISE_STRICT: " + problem, 0);
  warnOfDifferences(request_.end, reply_.end);
  replied_at_ = Clock::now();
  note("handshake under way");
  stage_ = Stage::kEstablishing;
  return Io::kDone;
}

Result<Io> Connecting::establish() {
  const Result<bool> established = chooser().establish(request_.end, reply_.end, session_);
  // A listener whose call was cut has taken its queue pairs away, and can be called again.
  if (!established.ok() && socket_.peek() == Io::kClosed) {
    RAILWISE_TRY(callFailed(ECONNRESET));
    return Io::kAgain;
  }
  if (!established.ok()) return giveUp("no path to the peer's queue pairs", established.status().sys_errno);
  if (!*established) {
    if (socket_.peek() == Io::kClosed) RAILWISE_TRY(callFailed(ECONNRESET));
    return Io::kAgain;
  }
  ready_ = makeMessage<ConnectReady>(MessageType::kReady);
  ready_.accepted = 1;
  seal(ready_, reply_, handle_.secret);
  transfer_ = transferOf(ready_);
  stage_ = Stage::kSendingReady;
  return Io::kDone;
}

void Connecting::note(const std::string& heard) {
  census_.note(heard);
  link().record().noteProblem(heard);
}

// Success: there will be another call. That is so for the next two functions, too.
Status Connecting::callFailed(int error) {
  const auto calls = static_cast<std::size_t>(calls_);
  const bool last = calls >= kMaxCalls * addresses_.size();
  if (last || (addresses_.size() == 1 && !worthAnotherCall(error))) return failed("no connection", error);
  RAILWISE_INFO(log::kNet, "%s: call %d to %s failed: %s; calling again", device_.name(), calls_,
                address().text().c_str(), std::strerror(error));
  return hangUp(std::string("the call failed: ") + std::strerror(error));
}

Status Connecting::answerIsForged(const std::string& what) {
  if (static_cast<std::size_t>(calls_) >= kMaxCalls * addresses_.size()) return failed(what, 0);
  RAILWISE_WARN("%s at %s: call %d to %s at %s: %s; calling again", device_.name(),
                options_.local_host.c_str(), calls_, fieldText(handle_.host).c_str(),
                address().text().c_str(), what.c_str());
  return hangUp("somebody else answered: " + what);
}

Status Connecting::hangUp(const std::string& heard) {
  socket_.close();
  // A connection that has adopted a reply cannot adopt another one.
  if (stage_ == Stage::kEstablishing || stage_ == Stage::kSendingReady) RAILWISE_TRY(makeEnd());
  note(heard);
  // The next address is called at once. After the last address there is a pause, then all are called again.
  next_call_ = Clock::now();
  if (const auto calls = static_cast<std::size_t>(calls_); calls % addresses_.size() == 0)
    next_call_ += Patience::kCallPause * static_cast<Clock::rep>(calls / addresses_.size());
  stage_ = Stage::kIdle;
  return Status::success();
}

Status Connecting::giveUp(const std::string& what, int error) {
  tellListener(what + (error != 0 ? std::string(": ") + std::strerror(error) : ""));
  return failed(what, error);
}

void Connecting::tellListener(std::string_view reason) {
  ready_ = makeMessage<ConnectReady>(MessageType::kReady);
  copyText(ready_.reason, reason);
  seal(ready_, reply_, handle_.secret);
  Transfer last = transferOf(ready_);
  (void)socket_.send(last);  // fits the empty socket buffer; if not, the listener sees this end hang up
  socket_.close();
}

Connecting::~Connecting() {
  if (!device_.inForkedChild() && stage_ == Stage::kEstablishing && socket_.valid())
    tellListener("the communicator was closed");
}

Status Connecting::failed(const std::string& what, int error) {
  std::string places;
  for (const SocketAddress& place : addresses_) places += (places.empty() ? "" : ", ") + place.text();
  RAILWISE_WARN("%s at %s: connecting to %s at %s: %s%s%s", device_.name(), options_.local_host.c_str(),
                fieldText(handle_.host).c_str(), places.c_str(), what.c_str(), error != 0 ? ": " : "",
                error != 0 ? std::strerror(error) : "");
  record::noteEvent(record::EventKind::kConnectFailed, fieldText(handle_.host) + ": " + what,
                    {.connection = &link().shown()});
  return {Code::kRemote, error};
}

}  // namespace railwise::net
