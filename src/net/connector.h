// The connecting end of the handshake. Never blocks: whoever wants the connection polls advance(). One thread
// at a time.
//
// The handshake serves ends of any kind. It knows an end by its link and its role; Connector<End> makes the
// end and gives it away.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "net/paths/chooser.h"
#include "net/wireup/authentication.h"
#include "net/wireup/census.h"
#include "net/wireup/handshake.h"

namespace railwise::net {

// The handshake, without the type of its end.
class Connecting {
 public:
  // Tells a listener that waits for the end of the handshake that there will be none.
  virtual ~Connecting();
  Connecting(const Connecting&) = delete;
  Connecting& operator=(const Connecting&) = delete;

  // Is this the attempt to reach `handle` on `device`? A handle's "connecting" field comes from outside and
  // proves nothing.
  bool belongsTo(const Device& device, const ListenHandle& handle) const {
    return &device == &device_ && sameSecret(handle.secret, handle_.secret);
  }

  // NCCL has given the attempt up: the attempt's time is over, and NCCL has not called connect() for it for a
  // minute. (NCCL has no call for giving up.)
  bool abandoned() const;

 protected:
  Connecting(const Device& device, const ConnectionOptions& options, const ListenHandle& handle)
      : device_(device),
        options_(options),
        handle_(handle),
        addresses_(handleAddresses(handle)),
        deadline_(Deadline::after(std::chrono::seconds(options.config.connect_timeout_s))),
        census_(Census::ofProcess(), fieldText(handle.host), "nothing heard") {}

  // Logs what is wrong with a handle.
  static Status check(const Device& device, const ConnectionOptions& options, const ListenHandle& handle,
                      ListenerKind kind);
  // Makes the first end.
  Status begin();
  // True: the end is up.
  Result<bool> advanceEnd();

 private:
  enum class Stage : uint8_t {
    kIdle,
    kConnecting,
    kSendingRequest,
    kAwaitingReply,
    kEstablishing,
    kSendingReady,
    kDone
  };

  // Makes another end, in the place of the one that there may be.
  virtual Status remakeEnd() = 0;
  virtual Link& link() = 0;
  virtual Chooser& chooser() = 0;

  Result<Io> step();
  Status makeEnd();
  Status call();
  Result<Io> onReply();
  Result<Io> establish();
  // The address that this TCP call goes to: the handle's addresses in turn.
  const SocketAddress& address() const {
    return addresses_[static_cast<std::size_t>(calls_ - 1) % addresses_.size()];
  }
  // What has been heard of the peer so far, for the census and the record.
  void note(const std::string& heard);
  Status callFailed(int error);
  // Bytes have come that the peer has not sent so.
  Status answerIsForged(const std::string& what);
  Status hangUp(const std::string& heard);
  // Like failed(), after it has told the listener why.
  Status giveUp(const std::string& what, int error);
  Status failed(const std::string& what, int error);
  void tellListener(std::string_view reason);

  const Device& device_;
  const ConnectionOptions options_;
  const ListenHandle handle_;
  const std::vector<SocketAddress> addresses_;
  const Deadline deadline_;
  Clock::time_point last_asked_ = Clock::now();
  Stage stage_ = Stage::kIdle;
  int calls_ = 0;
  Clock::time_point next_call_ = {};
  Clock::time_point call_ends_ = {};  // when the next address is tried, if there is one
  Socket socket_;
  ConnectRequest request_ = {};
  ConnectReply reply_ = {};
  ConnectReady ready_ = {};
  Session session_;
  Transfer transfer_ = {};
  Census::Entry census_;
  const Clock::time_point begun_ = Clock::now();
  Clock::time_point called_at_ = {};   // the TCP call was taken
  Clock::time_point replied_at_ = {};  // the reply was there
};

// `End` has link() and chooser().
template <typename End>
class Connector final : public Connecting {
 public:
  // Makes an end with its first queue pairs, for the listener of the handle. Called again when a call was cut
  // after the end had adopted a reply.
  using Make = std::function<Result<std::unique_ptr<End>>()>;

  // Checks the handle, which must be of a listener of this kind, and makes the end. Errors, logged:
  // kInvalidUsage (the handle is not Railwise's, of another version, or of another kind of listener), or the
  // error of `make`.
  static Result<std::unique_ptr<Connector>> create(const Device& device, const ConnectionOptions& options,
                                                   const ListenHandle& handle, ListenerKind kind, Make make) {
    RAILWISE_TRY(check(device, options, handle, kind));
    std::unique_ptr<Connector> made(new Connector(device, options, handle, std::move(make)));
    RAILWISE_TRY(made->begin());
    return made;
  }

  // The end that is being connected. Another one may take its place in advance().
  End& end() { return *end_; }
  // Returns the end, connected, or null for "not yet". What is not proven to come from the peer ends a call,
  // and the peer is called again, up to ten times. Errors, logged: kRemote, with both ends (the peer refuses,
  // fails, or does not answer within RAILWISE_CONNECT_TIMEOUT), or the error of Chooser::describe().
  Result<std::unique_ptr<End>> advance() {
    const Result<bool> up = advanceEnd();
    if (!up.ok()) return up.status();
    return *up ? std::move(end_) : std::unique_ptr<End>();
  }

 private:
  Connector(const Device& device, const ConnectionOptions& options, const ListenHandle& handle, Make make)
      : Connecting(device, options, handle), make_(std::move(make)) {}

  Status remakeEnd() override {
    Result<std::unique_ptr<End>> made = make_();
    if (!made.ok()) return made.status();
    end_ = std::move(*made);
    return Status::success();
  }
  Link& link() override { return end_->link(); }
  Chooser& chooser() override { return end_->chooser(); }

  const Make make_;
  std::unique_ptr<End> end_;
};

}  // namespace railwise::net
