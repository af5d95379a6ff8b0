#include "window.h"

#include <algorithm>
#include <cstdio>

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 3)

Window::Window(const Communicator& on, std::size_t bytes, int flags) : on_(on), bytes_(bytes) {
  MUST(ncclMemAlloc(&memory_, bytes));
  clear();
  MUST(ncclCommWindowRegister(on.comm, memory_, bytes, &window_, flags));
}

Window::~Window() {
  if (window_ != nullptr) MUST(ncclCommWindowDeregister(on_.comm, window_));
  MUST(ncclMemFree(memory_));
}

void Window::clear() const {
  MUST(cudaMemset(memory_, kEmpty, bytes_));
  MUST(cudaStreamSynchronize(nullptr));
}

void Window::write(std::size_t at, const std::vector<unsigned char>& bytes) const {
  MUST(cudaMemcpy(this->at(at), bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
  MUST(cudaStreamSynchronize(nullptr));
}

std::vector<unsigned char> Window::read() const {
  std::vector<unsigned char> host(bytes_);
  MUST(cudaMemcpy(host.data(), memory_, bytes_, cudaMemcpyDeviceToHost));
  return host;
}

std::vector<unsigned char> message(std::size_t bytes, int from, int to, uint32_t round) {
  std::vector<unsigned char> made(bytes);
  uint32_t state = (static_cast<uint32_t>(from) << 16 | static_cast<uint32_t>(to) << 8) + round * 2654435761U;
  for (unsigned char& byte : made) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<unsigned char>(state >> 24);
  }
  return made;
}

std::size_t differing(const std::vector<unsigned char>& is, const std::vector<unsigned char>& expected) {
  std::size_t bad = 0;
  for (std::size_t i = 0; i < std::min(is.size(), expected.size()); ++i) bad += is[i] == expected[i] ? 0 : 1;
  return bad + (is.size() >= expected.size() ? 0 : expected.size() - is.size());
}

bool isSymmetric(const Window& window) {
  if (window.handle() != nullptr) return true;
  std::puts("info no symmetric windows here: NCCL has no table for RMA, or no cuMem");
  return false;
}

void barrier(const Communicator& on) {
  const DeviceMemory memory(sizeof(int32_t));
  MUST(ncclAllReduce(memory.at(), memory.at(), 1, ncclInt32, ncclMin, on.comm, on.stream));
  on.wait();
}

#endif
