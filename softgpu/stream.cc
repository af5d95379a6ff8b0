#include "stream.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "device.h"
#include "graph.h"

namespace softgpu {
namespace {

// How long a stream's thread polls for more work before it sleeps. NCCL submits a few pieces of work in a
// row; longer polling would steal the processor from other ranks, of which a computer may have more than
// cores.
constexpr auto kSpin = std::chrono::microseconds(20);

std::atomic<unsigned long long> next_id = 1;

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// The streams behind cudaStreamPerThread, one for each device that this thread used it on.
struct ThreadStreams {
  std::map<int, std::shared_ptr<Stream>> of_device;
  ~ThreadStreams() {
    for (auto& [number, stream] : of_device) stream->close();
  }
};

}  // namespace

Stream::Stream(Device& device, StreamKind kind, int priority)
    : device_(device), kind_(kind), priority_(priority), id_(next_id++) {}

uint64_t Stream::enqueue(Work work) {
  const std::lock_guard lock(mutex_);
  if (!started_) startThread();
  queue_.push_back(std::move(work));
  const uint64_t number = submitted_.load(std::memory_order_relaxed) + 1;
  submitted_.store(number, std::memory_order_release);
  if (sleeping_) more_.notify_one();
  return number;
}

// The thread is detached: it ends by close(), or with the process. Signals go to the program's own threads.
void Stream::startThread() {
  started_ = true;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread([self = shared_from_this()] { self->run(); });
  pthread_setname_np(thread.native_handle(), "softgpu-stream");
  thread.detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Stream::run() {
  setCurrentDevice(device_.number);
  for (;;) {
    Work work = next();
    if (!work) return;
    work();
    work = nullptr;  // what it holds is free before anybody learns that the work is done
    const std::lock_guard lock(mutex_);
    completed_.store(completed_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    if (waiters_ > 0) progress_.notify_all();
  }
}

Work Stream::next() {
  const auto until = std::chrono::steady_clock::now() + kSpin;
  while (idle() && std::chrono::steady_clock::now() < until) relax();
  std::unique_lock lock(mutex_);
  while (queue_.empty()) {
    if (closed_) return {};
    sleeping_ = true;
    more_.wait(lock);
    sleeping_ = false;
  }
  Work work = std::move(queue_.front());
  queue_.pop_front();
  return work;
}

void Stream::wait(uint64_t number) {
  if (done(number)) return;
  const auto until = std::chrono::steady_clock::now() + kSpin;
  while (std::chrono::steady_clock::now() < until) {
    if (done(number)) return;
    relax();
  }
  std::unique_lock lock(mutex_);
  ++waiters_;
  progress_.wait(lock, [&] { return done(number); });
  --waiters_;
}

void Stream::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  more_.notify_one();
}

HandleTable<cudaStream_t, Stream>& streams() {
  static auto& table = *new HandleTable<cudaStream_t, Stream>;
  return table;
}

std::shared_ptr<Stream> resolveStream(cudaStream_t handle, cudaError_t* error) {
  *error = cudaSuccess;
  if (handle != nullptr && handle != cudaStreamLegacy && handle != cudaStreamPerThread) {
    std::shared_ptr<Stream> stream = streams().find(handle);
    if (stream == nullptr) *error = cudaErrorInvalidResourceHandle;
    return stream;
  }
  Device* const device = currentDevice(error);
  if (device == nullptr) return nullptr;
  if (handle != cudaStreamPerThread) return device->legacy;
  static thread_local ThreadStreams own;
  std::shared_ptr<Stream>& stream = own.of_device[device->number];
  if (stream == nullptr) {
    stream = std::make_shared<Stream>(*device, StreamKind::kBlocking, 0);
    device->addStream(stream);
  }
  return stream;
}

// Each wait is for work that was enqueued before, so no circle of waits can arise.
uint64_t enqueueInOrder(Stream& stream, Work work) {
  const auto waitFor = [&stream](const std::shared_ptr<Stream>& other) {
    const uint64_t last = other->submitted();
    if (!other->done(last)) stream.enqueue([other, last] { other->wait(last); });
  };
  if (stream.kind() == StreamKind::kBlocking) waitFor(stream.device().legacy);
  if (stream.kind() == StreamKind::kLegacy) {
    for (const auto& other : stream.device().liveStreams()) {
      if (other->kind() == StreamKind::kBlocking) waitFor(other);
    }
  }
  return stream.enqueue(std::move(work));
}

cudaError_t submit(Stream& stream, cudaGraphNodeType type, Work work) {
  if (capturesUnderWay()) {
    const std::lock_guard lock(captureMutex());
    if (stream.capture.session != nullptr) return captureNode(stream, type, std::move(work));
    if (const cudaError_t error = checkLegacyUse(stream); error != cudaSuccess) return error;
  }
  enqueueInOrder(stream, std::move(work));
  return cudaSuccess;
}

}  // namespace softgpu
