// A file descriptor that is closed with its owner. Each object belongs to one thread at a time.
#pragma once

#include <unistd.h>

#include <utility>

namespace railwise {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  bool valid() const { return fd_ >= 0; }
  int get() const { return fd_; }
  void close() { *this = Descriptor(); }
  // Forgets the descriptor, which is somebody else's now.
  void release() { fd_ = -1; }

 private:
  int fd_ = -1;
};

}  // namespace railwise
