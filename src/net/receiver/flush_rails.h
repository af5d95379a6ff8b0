// Through which rails a flush goes: those that wrote the receive. NCCL may ask for the flush of a receive
// after its epoch has ended, so the rails of earlier epochs are kept. Plain values; one thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "net/paths/endpoint.h"
#include "net/receiver/receive.h"

namespace railwise::net {

class FlushRails {
 public:
  // An epoch has ended: its `rails` may have written receives up to `up_to`.
  void keep(std::span<const Rail> rails, uint64_t up_to) {
    if (up_to > up_to_ + kOutstandingReceives) rails_.clear();  // they wrote receives that are over
    for (const Rail& rail : rails) {
      if (placeOf(rail, rails_) < 0) rails_.push_back(rail);
    }
    up_to_ = up_to;
  }
  // The rails of earlier epochs, if `receive` (null: not known) came in one of them: Receive::rails is
  // cleared with each epoch. Else none.
  std::span<const Rail> earlierOf(const Receive* receive) const {
    if (receive == nullptr || receive->rails != 0 || receive->number > up_to_) return {};
    return rails_;
  }

 private:
  std::vector<Rail> rails_;
  uint64_t up_to_ = 0;
};

}  // namespace railwise::net
