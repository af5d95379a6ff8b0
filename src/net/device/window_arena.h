// Windows: the memory that the peers of connections write into. It is registered in large slabs with all
// rails of a device. A connection takes a block of a slab instead of a registration of its own. Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "net/device/memory.h"

namespace railwise::net {

class WindowArena;

// A block of the arena, zeroed. The block goes back to the arena when the Window is destroyed. Destroy the
// queue pairs through which the peer can write into the block before the Window.
class Window {
 public:
  Window() = default;
  Window(Window&& other) noexcept { *this = std::move(other); }
  Window& operator=(Window&& other) noexcept;
  ~Window();

  template <typename T>
  T* at(std::size_t offset) const {
    return pages_->at<T>(offset_ + offset);
  }
  std::size_t bytes() const { return bytes_; }
  uint64_t address() const { return pages_->address() + offset_; }
  uint32_t localKey(std::size_t rail) const { return pages_->localKey(rail); }
  uint32_t remoteKey(std::size_t rail) const { return pages_->remoteKey(rail); }
  // The keys through a domain whose keys the two functions above do not have. Errors: kSystem, logged.
  Result<MemoryKeys> keysOn(ibv_pd* pd) const { return pages_->keysOn(pd); }

 private:
  friend class WindowArena;
  WindowArena* arena_ = nullptr;
  const RegisteredPages* pages_ = nullptr;
  std::size_t offset_ = 0;
  std::size_t bytes_ = 0;
  bool used_before_ = false;
};

class WindowArena final : public Renewable {
 public:
  // `rails`: the protection domain of each rail.
  explicit WindowArena(std::vector<RailDomain> rails) : rails_(std::move(rails)) {}
  WindowArena(const WindowArena&) = delete;
  WindowArena& operator=(const WindowArena&) = delete;

  // Errors: kSystem, logged. `registers`: may more memory be registered? That waits for the drivers of all
  // rails. If not and there is no room: ENOMEM, not logged.
  Result<Window> take(std::size_t bytes, bool registers = true);

  bool renew(ibv_pd* before, const RailDomain& fresh, const std::function<bool()>& goOn) override;

 private:
  friend class Window;
  struct Slab {
    RegisteredPages pages;
    std::size_t bytes;
    std::size_t used;
  };
  struct FreeBlock {
    const RegisteredPages* pages;
    std::size_t offset;
    std::size_t bytes;
  };
  // Returns a window without an arena if there is no room.
  Window takeLocked(std::size_t bytes);
  void give(const Window& window);

  std::vector<RailDomain> rails_;  // guarded by mutex_: renew() changes them
  std::mutex mutex_;
  std::vector<std::unique_ptr<Slab>> slabs_;
  std::vector<FreeBlock> free_;  // has room for all blocks that are out: giving one back needs no memory
  std::size_t blocks_ = 0;       // cut from the slabs so far
};

}  // namespace railwise::net
