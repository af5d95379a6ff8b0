// A listener that many peers call, each for an end of its own: one-sided communication. Any number of
// handshakes go on at once. A handshake that fails is logged and dropped, and ends no other one; a peer whose
// call was cut calls again. accept() never blocks: the owner polls it. One thread at a time.
#pragma once

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "net/answering.h"
#include "net/reception.h"

namespace railwise::net {

// The listener, without the type of its ends.
class ManyHandshakes {
 public:
  // The largest jobs have some thousand ranks for each device that listens; further callers wait in the
  // kernel.
  static constexpr std::size_t kMostHandshakes = 4096;
  // Calls that one handle is good for: each of so many peers may call ten times (Connecting).
  static constexpr std::size_t kMostCalls = 10 * kMostHandshakes;

  virtual ~ManyHandshakes() = default;
  ManyHandshakes(const ManyHandshakes&) = delete;
  ManyHandshakes& operator=(const ManyHandshakes&) = delete;

  const ListenHandle& handle() const { return reception_->handle(); }
  // Handshakes that are under way.
  std::size_t underWay() const { return handshakes_.size(); }

 protected:
  explicit ManyHandshakes(std::unique_ptr<Reception> reception) : reception_(std::move(reception)) {}
  // Advances all handshakes, unless one is up already. Null: none is up.
  std::unique_ptr<AnsweringHandshake> acceptOne();

 private:
  virtual std::unique_ptr<AnsweringHandshake> begin(std::unique_ptr<Caller> caller) = 0;

  const std::unique_ptr<Reception> reception_;
  std::vector<std::unique_ptr<AnsweringHandshake>> handshakes_;
  std::deque<std::unique_ptr<AnsweringHandshake>> up_;
};

// `End` has link() and answerer().
template <typename End>
class ManyListener final : public ManyHandshakes {
 public:
  using Make = typename Answering<End>::Make;

  // `make`: as of Answering; EndInfo::user_word says who calls. Errors: as of Reception::create().
  static Result<std::unique_ptr<ManyListener>> create(const Device& device, const ConnectionOptions& options,
                                                      ListenerKind kind, Make make) {
    Result<std::unique_ptr<Reception>> reception = Reception::create(device, options, kind, kMostCalls);
    if (!reception.ok()) return reception.status();
    return std::unique_ptr<ManyListener>(
        new ManyListener(device, options, std::move(*reception), std::move(make)));
  }
  ~ManyListener() override = default;

  // Returns one end that has come up, or null. Call it until it returns null.
  Result<std::unique_ptr<End>> accept() {
    const std::unique_ptr<AnsweringHandshake> up = acceptOne();
    return up != nullptr ? static_cast<Answering<End>&>(*up).take() : std::unique_ptr<End>();
  }

 private:
  ManyListener(const Device& device, const ConnectionOptions& options, std::unique_ptr<Reception> reception,
               Make make)
      : ManyHandshakes(std::move(reception)), device_(device), options_(options), make_(std::move(make)) {}

  std::unique_ptr<AnsweringHandshake> begin(std::unique_ptr<Caller> caller) override {
    return std::make_unique<Answering<End>>(device_, options_, handle().secret, std::move(caller), make_);
  }

  const Device& device_;
  const ConnectionOptions options_;
  const Make make_;
};

}  // namespace railwise::net
