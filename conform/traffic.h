// Messages through a connection with a full window at each end, each verified.
#pragma once

#include <deque>
#include <utility>

#include "conform/subject.h"

namespace railwise::conform {

class Traffic {
 public:
  struct End {
    std::deque<std::pair<void*, std::size_t>> requests;  // with the number of the message
    std::size_t posted = 0, done = 0;
    ncclResult_t error = ncclSuccess;  // of the first call that failed; the end does nothing after it
  };

  // `window`: messages under way at most.
  Traffic(Connection& connection, std::size_t count, std::size_t bytes, std::size_t window);
  // A call or two of each end that is not over. Throws Broken for wrong data.
  void step();
  // True if the end has carried all messages, or failed.
  bool over(const End& end) const { return end.error != ncclSuccess || end.done == count_; }
  // A step where no call may fail: throws Broken for an error. Returns whether all messages have arrived.
  bool advance();
  // Until all messages have arrived.
  void run();
  // As NCCL does after the first error of an end: deregisters its memory and closes it.
  void close(bool sender);

  End sender, receiver;

 private:
  ncclResult_t post(End& end);
  ncclResult_t look(End& end);
  std::size_t placeOf(std::size_t number) const { return number % window_ * bytes_; }

  NetApi& api_;
  Connection& connection_;
  const std::size_t count_, bytes_, window_;
  Memory from_, to_;
};

}  // namespace railwise::conform
