#include "net/listener.h"

#include <cerrno>
#include <utility>

#include "base/log.h"
#include "net/patience.h"

namespace railwise::net {
namespace {

// Calls that one handle is good for. The peer gives up sooner.
constexpr std::size_t kMostCalls = 256;

}  // namespace

Listener::Listener(const Device& device, const ConnectionOptions& options,
                   std::unique_ptr<Reception> reception)
    : device_(device),
      options_(options),
      make_([this](const EndInfo& request, std::string& refusal) {
        return ReceiveConnection::create(device_, options_, request, refusal);
      }),
      reception_(std::move(reception)) {
  page_.emplace(device.name(), device.rails().front().record_rail);
}

Result<std::unique_ptr<Listener>> Listener::create(const Device& device, const ConnectionOptions& options) {
  Result<std::unique_ptr<Reception>> reception =
      Reception::create(device, options, ListenerKind::kMessages, kMostCalls);
  if (!reception.ok()) return reception.status();
  return std::unique_ptr<Listener>(new Listener(device, options, std::move(*reception)));
}

Result<std::unique_ptr<ReceiveConnection>> Listener::accept() {
  using State = AnsweringHandshake::State;
  if (!over_.ok()) return over_;
  if (page_ && !census_) census_.emplace(Census::ofProcess(), "", "nothing heard");
  reception_->hear([this](std::unique_ptr<Caller> caller) { takePeer(std::move(caller)); });
  if (again_ && again_->passed()) return notAgain();
  const State state = peer_ != nullptr ? peer_->advance() : State::kUnderWay;
  if (state == State::kUp) return takeConnection();
  if (state != State::kUnderWay) {
    const Status failure = std::exchange(peer_, nullptr)->failure();
    if (state == State::kNotAgain) return notAgain();
    if (state == State::kFailedHere) return over(failure);
    if (state == State::kFailed) return failure;
    again_ = Deadline::after(Patience::kCallsAgain);
  }
  if (census_) warnOfSlowConnect(options_.config.slow_connect_s);
  return std::unique_ptr<ReceiveConnection>();
}

// The newest call of the peer counts: the peer calls again only when its earlier call has ended for it.
void Listener::takePeer(std::unique_ptr<Caller> caller) {
  if (peer_ != nullptr) peer_->warnOfPeer("calls again: its earlier call was cut on the way");
  again_.reset();
  peer_ = nullptr;  // before the next one is made
  peer_ = std::make_unique<Answering<ReceiveConnection>>(device_, options_, handle().secret,
                                                         std::move(caller), make_);
}

std::unique_ptr<ReceiveConnection> Listener::takeConnection() {
  const std::unique_ptr<Answering<ReceiveConnection>> done = std::move(peer_);
  if (census_) census_->up();
  census_.reset();
  page_.reset();
  reception_->dropCallers();
  return done->take();
}

Status Listener::notAgain() {
  RAILWISE_WARN("%s at %s: the peer has not called again", device_.name(), options_.local_host.c_str());
  return over({Code::kRemote, ECONNRESET});
}

Status Listener::over(Status status) {
  reception_->close();
  return over_ = status;
}

}  // namespace railwise::net
