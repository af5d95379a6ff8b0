// The accepting end of one handshake: it begins with a caller that has proven itself (reception.h), and ends
// with an end of a link, or with a reason. Never blocks: the listener polls advance(). One thread at a time.
//
// The handshake serves ends of any kind. It knows an end by its link and its role; Answering<End> makes the
// end and gives it away.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "net/paths/answerer.h"
#include "net/reception.h"
#include "net/wireup/authentication.h"
#include "net/wireup/handshake.h"

namespace railwise::net {

// The handshake, without the type of its end.
class AnsweringHandshake {
 public:
  enum class State : uint8_t {
    kUnderWay,
    kUp,         // the end is ready to be taken
    kCallEnded,  // the call was cut or changed on the way, or the peer has died: it may call again
    kNotAgain,   // the call was cut at its end, and the peer has not called again
    kFailed,     // failure() says how; the peer knows it
    kFailedHere  // failure() says how; the peer does not know it
  };

  virtual ~AnsweringHandshake();
  AnsweringHandshake(const AnsweringHandshake&) = delete;
  AnsweringHandshake& operator=(const AnsweringHandshake&) = delete;

  // Goes on as far as that is possible now. What has ended stays so; the reason is logged with both ends.
  State advance();
  // Logs what is wrong with the peer.
  void warnOfPeer(const std::string& what) const;
  // Errors: kRemote (the peer gave up, or did not finish in time), or the error with which this end could not
  // make its queue pairs.
  Status failure() const { return failure_; }

 protected:
  AnsweringHandshake(const Device& device, const ConnectionOptions& options, const Secret& secret,
                     std::unique_ptr<Caller> caller)
      : device_(device), options_(options), secret_(secret), caller_(std::move(caller)) {}

 private:
  enum class Stage : uint8_t { kAnswering, kSendingReply, kEstablishing, kAwaitingReady, kOver };

  // Makes the end for the request. If the peer is refused, `refusal` receives the reason for the peer.
  virtual Status makeEnd(const EndInfo& request, std::string& refusal) = 0;
  virtual bool hasEnd() const = 0;
  virtual void dropEnd() = 0;
  virtual Link& link() = 0;
  virtual Answerer& answerer() = 0;

  void answer();
  Status buildEnd(std::string& refusal);
  void sendReply();
  void establish();
  void awaitReady();
  // The last message was cut or changed on the way. A sender that has sent it proves itself to the Resumer.
  void readyLost(const std::string& what);
  void finish(Socket socket);
  bool peerBeginsLost();
  bool readyIsThere();
  void peerStillThere();
  bool peerHungUp() { return caller_->socket.peek() == Io::kClosed; }
  // The peer's call was cut or changed on the way, or the peer has died.
  void callEnded(const std::string& what);
  void peerFailed(const std::string& what, int error);
  // The handshake ends. The Resumer does not await its sender any more.
  void end(State state, Status failure);

  const Device& device_;
  const ConnectionOptions options_;
  const Secret secret_;
  const std::unique_ptr<Caller> caller_;
  Stage stage_ = Stage::kAnswering;
  State state_ = State::kUnderWay;
  Status failure_;
  ConnectReply reply_ = {};
  ConnectReady ready_ = {};
  std::optional<Clock::time_point> ready_at_;  // since when it is there, while RDMA CM still connects
  Session session_;
  Transfer transfer_ = {};
  bool awaited_ = false;           // the Resumer awaits the connection's sender, too
  std::optional<Deadline> again_;  // when the sender, whose last message is lost, must have called again
};

// `End` has link() and answerer().
template <typename End>
class Answering final : public AnsweringHandshake {
 public:
  // Makes the end for the request, which has passed checkFirstEnd(). If the peer is refused, `refusal`
  // receives the reason for the peer.
  using Make = std::function<Result<std::unique_ptr<End>>(const EndInfo& request, std::string& refusal)>;

  Answering(const Device& device, const ConnectionOptions& options, const Secret& secret,
            std::unique_ptr<Caller> caller, const Make& make)
      : AnsweringHandshake(device, options, secret, std::move(caller)), make_(make) {}

  // The end of a handshake that is up.
  std::unique_ptr<End> take() { return std::move(end_); }

 private:
  Status makeEnd(const EndInfo& request, std::string& refusal) override {
    Result<std::unique_ptr<End>> made = make_(request, refusal);
    if (!made.ok()) return made.status();
    end_ = std::move(*made);
    return Status::success();
  }
  bool hasEnd() const override { return end_ != nullptr; }
  void dropEnd() override { end_.reset(); }
  Link& link() override { return end_->link(); }
  Answerer& answerer() override { return end_->answerer(); }

  const Make& make_;  // of the listener
  std::unique_ptr<End> end_;
};

}  // namespace railwise::net
