// How many small messages a caller sends between two calls of test(), as far as that can be foreseen. NCCL
// tests after each send, so each send asks for a signalled completion. A caller that sends batches of one
// length gets one completion for each batch; when a batch turns out shorter, test() asks for its completion.
// Plain values; one thread at a time.
#pragma once

#include <cstdint>

namespace railwise::net {

class BatchLength {
 public:
  // test() was called since the last send: a new batch begins. `regular`: its length can be foreseen at all.
  void begin(bool regular) {
    expected_ = length_ == last_ && regular ? length_ : 1;
    last_ = length_;
    length_ = 0;
  }
  // One send more. True: the batch is as long as expected, so this send asks for a completion.
  bool add() { return ++length_ >= expected_; }
  // Some messages of the batch have not asked for a completion.
  bool isShort() const { return length_ > 0 && length_ < expected_; }
  // Each send asks, until the next batch.
  void expectNone() { expected_ = 1; }
  // The batch went with its queue pairs.
  void drop() { length_ = 0; }

 private:
  uint32_t length_ = 0;  // so far
  uint32_t last_ = 0;
  uint32_t expected_ = 1;
};

}  // namespace railwise::net
