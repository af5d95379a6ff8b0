#include "net/device/window_arena.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace railwise::net {
namespace {

// The first slab serves a few connections; each further one is twice as large, up to some hundred.
constexpr std::size_t kFirstSlabBytes = std::size_t{64} << 10;
constexpr std::size_t kLargestSlabBytes = std::size_t{2} << 20;
constexpr std::size_t kBlockAlignment = 128;

std::size_t roundUp(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

Window& Window::operator=(Window&& other) noexcept {
  std::swap(arena_, other.arena_);
  std::swap(pages_, other.pages_);
  std::swap(offset_, other.offset_);
  std::swap(bytes_, other.bytes_);
  std::swap(used_before_, other.used_before_);
  return *this;
}

Window::~Window() {
  if (arena_ != nullptr) arena_->give(*this);
}

Window WindowArena::takeLocked(std::size_t bytes) {
  Window window;
  const auto free = std::find_if(free_.begin(), free_.end(),
                                 [bytes](const FreeBlock& block) { return block.bytes == bytes; });
  if (free != free_.end()) {
    window.pages_ = free->pages;
    window.offset_ = free->offset;
    window.used_before_ = true;
    *free = free_.back();
    free_.pop_back();
  } else if (!slabs_.empty() && slabs_.back()->bytes - slabs_.back()->used >= bytes) {
    if (free_.capacity() <= blocks_) free_.reserve(2 * blocks_ + 16);
    ++blocks_;
    Slab& slab = *slabs_.back();
    window.pages_ = &slab.pages;
    window.offset_ = std::exchange(slab.used, slab.used + bytes);
  } else {
    return window;
  }
  window.bytes_ = bytes;
  window.arena_ = this;
  return window;
}

Result<Window> WindowArena::take(std::size_t bytes, bool registers) {
  bytes = roundUp(bytes, kBlockAlignment);
  std::unique_lock lock(mutex_);
  Window window = takeLocked(bytes);
  while (window.arena_ == nullptr) {
    if (!registers) return Status{Code::kSystem, ENOMEM};
    const std::size_t next = slabs_.empty() ? kFirstSlabBytes : slabs_.back()->bytes * 2;
    const std::size_t size = std::max(std::min(next, kLargestSlabBytes), roundUp(bytes, kFirstSlabBytes));
    const std::vector<RailDomain> rails = rails_;
    lock.unlock();  // registering takes its time
    Result<RegisteredPages> pages = RegisteredPages::create(rails, size);
    if (!pages.ok()) return pages.status();
    lock.lock();
    if (rails != rails_) {  // a device was opened anew meanwhile
      lock.unlock();
      pages = Status{Code::kSystem, 0};
      lock.lock();
      window = takeLocked(bytes);
      continue;
    }
    slabs_.push_back(std::make_unique<Slab>(Slab{std::move(*pages), size, 0}));
    window = takeLocked(bytes);
  }
  lock.unlock();
  if (window.used_before_) std::memset(window.at<std::byte>(0), 0, bytes);
  return window;
}

bool WindowArena::renew(ibv_pd* before, const RailDomain& fresh, const std::function<bool()>& goOn) {
  std::unique_lock lock(mutex_);
  for (RailDomain& rail : rails_) {
    if (rail.pd == before) rail = fresh;
  }
  bool all = true;
  for (std::size_t i = 0; i < slabs_.size(); ++i) {
    RegisteredPages& pages = slabs_[i]->pages;  // slabs stay where they are as long as the arena
    lock.unlock();
    all = pages.renew(before, fresh, goOn) && all;
    lock.lock();
  }
  return all;
}

void WindowArena::give(const Window& window) {
  const std::lock_guard lock(mutex_);
  free_.push_back({window.pages_, window.offset_, window.bytes_});
}

}  // namespace railwise::net
