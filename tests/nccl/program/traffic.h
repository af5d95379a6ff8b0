// One-sided traffic that flows while faults strike: what checkRmaTraffic and its kin have in common.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "communicator.h"

// Windows, and what is put into them. Collective: all ranks make one, call it, and end it in the same order.
class OneSidedTraffic {
 public:
  virtual ~OneSidedTraffic() = default;
  // Every rank puts about so many bytes to every other rank. Returns how many bytes and signals are wrong.
  // The other ranks have looked at their bytes, too, when it returns.
  virtual std::size_t exchange(std::size_t bytes, std::size_t round) = 0;
  // After the last exchange: what has come too often, or late.
  virtual std::size_t surplus() = 0;
};

// `name`: used once in a job. Null, after a line that says why: this NCCL has nothing for it.
using MakeTraffic = std::unique_ptr<OneSidedTraffic> (*)(const Communicator& main, const std::string& name);

// The check "traffic", of one-sided traffic alone but for the agreement to go on.
void checkOneSidedTraffic(const Communicator& main, MakeTraffic make);
