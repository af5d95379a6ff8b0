// A stream: a queue of work and a thread that does it in order.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "api.h"
#include "capture.h"
#include "handles.h"

namespace softgpu {

struct Device;

// What a stream does at one step. A graph runs it many times.
using Work = std::function<void()>;

enum class StreamKind {
  kLegacy,       // stream 0: waits for the blocking streams of its device, and they wait for it
  kBlocking,     // cudaStreamDefault
  kNonBlocking,  // cudaStreamNonBlocking
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(Device& device, StreamKind kind, int priority);

  // Puts `work` at the end of the queue. Returns its number: 1, 2, 3 ... Thread-safe.
  uint64_t enqueue(Work work);
  uint64_t submitted() const { return submitted_.load(std::memory_order_acquire); }
  bool done(uint64_t number) const { return completed_.load(std::memory_order_acquire) >= number; }
  bool idle() const { return done(submitted()); }
  // Returns when the work of that number is done.
  void wait(uint64_t number);
  // The thread ends when the queue is empty. Nothing is enqueued afterwards.
  void close();

  Device& device() const { return device_; }
  StreamKind kind() const { return kind_; }
  int priority() const { return priority_; }
  unsigned long long id() const { return id_; }

  StreamCapture capture;  // guarded by captureMutex()

 private:
  void startThread();
  void run();
  // The next work, or an empty one when the stream is closed.
  Work next();

  Device& device_;
  const StreamKind kind_;
  const int priority_;
  const unsigned long long id_;
  std::atomic<uint64_t> submitted_ = 0;
  std::atomic<uint64_t> completed_ = 0;
  std::mutex mutex_;  // guards what follows
  std::condition_variable more_;
  std::condition_variable progress_;
  std::deque<Work> queue_;
  int waiters_ = 0;
  bool sleeping_ = false;
  bool started_ = false;
  bool closed_ = false;
};

HandleTable<cudaStream_t, Stream>& streams();

// The stream that a program means: a handle, 0 (the current device's stream 0), cudaStreamLegacy or
// cudaStreamPerThread. Null: none, and `error` says why.
std::shared_ptr<Stream> resolveStream(cudaStream_t handle, cudaError_t* error);

// Puts `work` into the stream after whatever CUDA's rules of stream 0 demand. The stream does not capture.
uint64_t enqueueInOrder(Stream& stream, Work work);

// enqueueInOrder, or a graph node of `type` if the stream captures.
cudaError_t submit(Stream& stream, cudaGraphNodeType type, Work work);

}  // namespace softgpu
