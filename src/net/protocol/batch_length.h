// Foresees how many small messages a caller sends between two calls of test() (a batch). NCCL calls test()
// after each send, so each send is signalled. A caller whose batches all have one length gets one completion
// for each batch. If a batch turns out shorter, test() requests the completion. Plain values; one
// thread at a time.
#pragma once

#include <cstdint>

namespace railwise::net {

class BatchLength {
 public:
  // test() was called since the last send: a new batch begins. `regular` false: each send is signalled,
  // because several queue pairs take turns.
  void begin(bool regular) {
    expected_ = length_ == last_ && regular ? length_ : 1;
    last_ = length_;
    length_ = 0;
  }
  // One more send. True: the batch is as long as expected, so this send is signalled.
  bool add() { return ++length_ >= expected_; }
  // The batch is shorter than expected so far, so no signalled send covers its latest messages.
  bool isShort() const { return length_ > 0 && length_ < expected_; }
  // Each send is signalled, until the next batch.
  void expectNone() { expected_ = 1; }
  // The batch was lost with its queue pairs.
  void drop() { length_ = 0; }

 private:
  uint32_t length_ = 0;  // length of the batch so far
  uint32_t last_ = 0;
  uint32_t expected_ = 1;
};

}  // namespace railwise::net
