#include "net/many_listener.h"

#include <algorithm>
#include <cstddef>

namespace railwise::net {

std::unique_ptr<AnsweringHandshake> ManyHandshakes::acceptOne() {
  using State = AnsweringHandshake::State;
  if (up_.empty()) {
    const std::size_t room = kMostHandshakes - std::min(handshakes_.size(), kMostHandshakes);
    reception_->hear(
        [this](std::unique_ptr<Caller> caller) { handshakes_.push_back(begin(std::move(caller))); }, room);
    for (std::size_t i = 0; i < handshakes_.size();) {
      const State state = handshakes_[i]->advance();
      if (state == State::kUnderWay) {
        ++i;
        continue;
      }
      if (state == State::kUp) up_.emplace_back().swap(handshakes_[i]);
      if (state == State::kNotAgain) handshakes_[i]->warnOfPeer("has not called again");
      handshakes_.erase(handshakes_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  if (up_.empty()) return nullptr;
  std::unique_ptr<AnsweringHandshake> first = std::move(up_.front());
  up_.pop_front();
  return first;
}

}  // namespace railwise::net
