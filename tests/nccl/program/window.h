// Memory windows of NCCL, and bytes that tell who wrote them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "communicator.h"

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 3)

// Memory of ncclMemAlloc that all ranks of a communicator have registered as one window: all of them make it
// and end it in the same order. It begins as kEmpty.
class Window {
 public:
  static constexpr unsigned char kEmpty = 0xee;

  Window(const Communicator& on, std::size_t bytes, int flags);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  char* at(std::size_t byte = 0) const { return static_cast<char*>(memory_) + byte; }
  std::size_t bytes() const { return bytes_; }
  ncclWindow_t handle() const { return window_; }
  // The memory goes on, as a program has it that destroys the communicator first.
  void forgetCommunicator() { window_ = nullptr; }

  void clear() const;
  void write(std::size_t at, const std::vector<unsigned char>& bytes) const;
  std::vector<unsigned char> read() const;

 private:
  const Communicator& on_;
  std::size_t bytes_;
  void* memory_ = nullptr;
  ncclWindow_t window_ = nullptr;
};

// What rank `from` sends to rank `to` in a round.
std::vector<unsigned char> message(std::size_t bytes, int from, int to, uint32_t round);

// How many bytes differ.
std::size_t differing(const std::vector<unsigned char>& is, const std::vector<unsigned char>& expected);

// Whether NCCL has made a symmetric window of it; if not, says so. All ranks have the same answer.
bool isSymmetric(const Window& window);

// Returns when every rank has called it and its stream has ended.
void barrier(const Communicator& on);

#endif
