#include "net/answering.h"

#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "net/patience.h"
#include "net/wireup/asymmetry.h"
#include "net/wireup/resumer.h"

namespace railwise::net {

AnsweringHandshake::~AnsweringHandshake() {
  if (awaited_) options_.resumer->forget(session_.id());
}

AnsweringHandshake::State AnsweringHandshake::advance() {
  if (stage_ == Stage::kAnswering) answer();
  if (stage_ == Stage::kSendingReply) sendReply();
  if (stage_ == Stage::kEstablishing) establish();
  if (stage_ == Stage::kAwaitingReady) awaitReady();
  return state_;
}

void AnsweringHandshake::answer() {
  // One session for a call, also when the path to the peer is resolved only later: some of the queue pairs
  // have the session's packet numbers already.
  const ConnectRequest& request = caller_->request;
  if (!hasEnd()) session_ = {secret_, request.random, randomBytes()};
  reply_ = makeMessage<ConnectReply>(MessageType::kReply);
  reply_.random = session_.listener;
  std::string refusal;
  const Status built = buildEnd(refusal);
  reply_.accepted = built.ok() ? 1 : 0;
  copyText(reply_.reason, refusal);
  transfer_ = transferOf(reply_);
  // The path to the peer may not be resolved yet (ARP). The next call tries again.
  if (built.sys_errno == ETIMEDOUT && !caller_->deadline.passed()) {
    if (peerHungUp()) callEnded("hung up during the handshake");
    return;
  }
  if (!built.ok()) {
    seal(reply_, request, secret_);
    (void)caller_->socket.send(transfer_);  // fits the empty socket buffer; if not, the peer sees us hang up
    warnOfPeer("is refused: " + refusal);
    return end(State::kFailed, built);
  }
  reply_.end = answerer().local();
  seal(reply_, request, secret_);
  warnOfDifferences(reply_.end, request.end);
  caller_->deadline = Deadline::after(std::chrono::seconds(options_.config.connect_timeout_s));
  stage_ = Stage::kSendingReply;
  awaited_ = options_.resumer != nullptr && request.end.resume_port != 0 && request.end.failover != 0 &&
             options_.config.failover != 0;
  if (awaited_) options_.resumer->await(session_.id(), session_.frameKeys());
}

// On failure `refusal` has the reason for the peer.
Status AnsweringHandshake::buildEnd(std::string& refusal) {
  const EndInfo& request = caller_->request.end;
  refusal = checkFirstEnd(request);
  if (!refusal.empty()) {
    refusal = "the request has " + refusal;
    return {Code::kRemote, 0};
  }
  if (!hasEnd()) {
    if (const Status made = makeEnd(request, refusal); !made.ok()) {
      if (refusal.empty())
        refusal = std::string(device_.name()) + ": the queue pairs could not be made, see the log of " +
                  options_.local_host;
      return made;
    }
    link().record().openPeer(fieldText(request.host), pairId(secret_, request.user_word));
  }
  const StrictMode strict = parseStrictMode(options_.config.strict).value_or(StrictMode());
  if (const std::string problem = refusedDifference(strict, answerer().local(), request); !problem.empty()) {
    refusal = "RAILWISE_STRICT: " + problem;
    return {Code::kRemote, 0};
  }
  const Status prepared = answerer().prepare(request, session_);
  if (!prepared.ok())
    refusal = std::string(device_.name()) + ": no path between the queue pairs, see the log of " +
              options_.local_host;
  return prepared;
}

void AnsweringHandshake::sendReply() {
  const Result<Io> sent = caller_->socket.send(transfer_);
  if (!sent.ok() || *sent == Io::kClosed) return callEnded("hung up during the handshake");
  if (*sent != Io::kDone) return;
  stage_ = Stage::kEstablishing;
  transfer_ = transferOf(ready_);
}

void AnsweringHandshake::establish() {
  const Result<bool> established = answerer().establish(caller_->request.end);
  // A peer whose call was cut has taken its queue pairs away, and calls again.
  if (!established.ok() && peerHungUp()) return callEnded("hung up during the handshake");
  if (!established.ok()) {
    peerFailed("cannot be connected to", established.status().sys_errno);
    return end(State::kFailedHere, failure_);
  }
  const bool gives_up = !*established && readyIsThere() && ready_.accepted != 1;
  if (*established || gives_up || peerBeginsLost()) stage_ = Stage::kAwaitingReady;
  else peerStillThere();
}

// A sender whose queue pairs RDMA CM cannot connect is ready all the same if it can fail over: the connection
// begins without queue pairs. But RDMA CM may also tell this end later than the sender.
bool AnsweringHandshake::peerBeginsLost() {
  return readyIsThere() && Clock::now() - *ready_at_ > Patience::kManagerFollows &&
         answerer().giveUpFirst(caller_->request.end);
}

bool AnsweringHandshake::readyIsThere() {
  if (ready_at_) return true;
  const Result<Io> heard = caller_->socket.receive(transfer_);
  if (heard.ok() && *heard == Io::kDone) ready_at_ = Clock::now();
  return ready_at_.has_value();
}

// While RDMA CM connects, only the ready message comes over the side channel. The end of the side channel, or
// the timeout, ends the attempt.
void AnsweringHandshake::peerStillThere() {
  if (peerHungUp()) return callEnded("hung up during the handshake");
  if (!caller_->deadline.passed()) return;
  peerFailed("did not finish the handshake in RAILWISE_CONNECT_TIMEOUT=" +
                 std::to_string(options_.config.connect_timeout_s) + " s",
             ETIMEDOUT);
}

void AnsweringHandshake::awaitReady() {
  if (awaited_) {
    Socket proven = options_.resumer->takeProven(session_.id());
    if (proven.valid()) return finish(std::move(proven));
  }
  if (again_) return again_->passed() ? end(State::kNotAgain, {Code::kRemote, ECONNRESET}) : void();
  const Result<Io> heard = caller_->socket.receive(transfer_);
  if (!heard.ok() || *heard == Io::kClosed) return readyLost("hung up during the handshake");
  if (*heard == Io::kAgain) return caller_->deadline.passed() ? peerStillThere() : void();
  std::string problem = checkHeader(ready_.header, MessageType::kReady, sizeof ready_);
  if (problem.empty() && !isTrue(ready_, reply_, secret_))
    problem = "sent a wrong MAC: somebody changes bytes on the way";
  if (!problem.empty()) return readyLost(problem);
  if (ready_.accepted != 1) return peerFailed("gives up: " + fieldText(ready_.reason), 0);
  finish(std::move(caller_->socket));
}

void AnsweringHandshake::readyLost(const std::string& what) {
  if (!awaited_) return callEnded(what);
  warnOfPeer(what + "; waiting for it to call again");
  caller_->socket.close();  // the sender sees that, if it has not ended the call itself
  again_ = Deadline::after(Patience::kCallsAgain);
}

void AnsweringHandshake::finish(Socket socket) {
  link().attach(std::move(socket), session_, caller_->request.end.resume_port);
  if (std::exchange(awaited_, false)) options_.resumer->forget(session_.id());
  record::noteEvent(record::EventKind::kConnected, link().peer, {.connection = &link().shown()});
  stage_ = Stage::kOver;
  state_ = State::kUp;
}

void AnsweringHandshake::callEnded(const std::string& what) {
  warnOfPeer(what + "; waiting for it to call again");
  end(State::kCallEnded, {Code::kRemote, ECONNRESET});
}

void AnsweringHandshake::peerFailed(const std::string& what, int error) {
  warnOfPeer(what + (error != 0 ? std::string(": ") + std::strerror(error) : ""));
  end(State::kFailed, {Code::kRemote, error});
}

void AnsweringHandshake::end(State state, Status failure) {
  stage_ = Stage::kOver;
  state_ = state;
  failure_ = failure;
  if (std::exchange(awaited_, false)) options_.resumer->forget(session_.id());
  dropEnd();
  caller_->socket.close();
}

void AnsweringHandshake::warnOfPeer(const std::string& what) const {
  RAILWISE_WARN("%s at %s: peer %s calling from %s %s", device_.name(), options_.local_host.c_str(),
                fieldText(caller_->request.end.host).c_str(), caller_->socket.peerAddress().text().c_str(),
                what.c_str());
}

}  // namespace railwise::net
