// Memory that two processes can share: a region that lies in a shared mapping of a file (a memory file,
// /dev/shm, a deleted file) is published with its file, and a peer maps it and copies into it, for tens of
// nanoseconds where a system call costs a microsecond. Private memory is left alone (remap.h can change it).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "softdev/fabric/fabric.h"

namespace railwise::softdev {

// The owner's half: a descriptor of the file behind a region, kept open while regions use it. Shared by all
// regions in one file.
class BackingFile {
 public:
  BackingFile(int fd, uint64_t identity, bool writable) : fd_(fd), identity_(identity), writable_(writable) {}
  ~BackingFile();
  BackingFile(const BackingFile&) = delete;
  BackingFile& operator=(const BackingFile&) = delete;
  int fd() const { return fd_; }
  uint64_t identity() const { return identity_; }
  bool writable() const { return writable_; }

 private:
  int fd_;
  uint64_t identity_;
  bool writable_;
};

// Device and inode in one number; equal for the same file while anyone has it open.
uint64_t fileIdentity(uint64_t device, uint64_t inode);

// The file behind [address, address + length) when all of it is one stretch of one file, mapped shared and
// (if `writing`) writable; *offset is where it begins there. Null for everything else, and when no descriptor
// of the file can be had. Asks the kernel each time: what lay at an address a moment ago means nothing.
std::shared_ptr<BackingFile> findBacking(uint64_t address, uint64_t length, bool writing, uint64_t* offset);

// A file that we made ourselves becomes known to findBacking(), since nothing else may lead to a descriptor.
void rememberBacking(const std::shared_ptr<BackingFile>& file);

// Writes `file` (may be null) into a region's record, before its key is.
void publishBacking(MrRecord& record, const BackingFile* file, uint64_t offset);

// The poster's half: a peer's region, mapped here. Unmapped with the last user.
class PeerRegion;

// Regions of one peer process that a queue pair uses; guarded by its sq_lock. A few entries are enough: an
// application registers large regions and names pieces of them.
class PeerRegions {
 public:
  // The place in this process of `address` in the memory of the process with `token`, region `key`, or null
  // when it cannot be mapped. The peer's responder lock is held and the key was checked under it, with the
  // range, so that the region stays while the bytes are copied.
  std::byte* find(Fabric& fabric, uint32_t token, uint32_t key, const std::byte* address, bool writing);
  // Unmaps what is not registered any more.
  void sweep(const Segment& segment);
  void clear();

 private:
  struct Entry {
    uint32_t key = 0;
    uint32_t token = 0;
    uint64_t identity = 0;
    uint64_t offset = 0;
    uint64_t address = 0;  // of the region in the peer
    uint64_t length = 0;
    std::byte* memory = nullptr;  // the same here; null: cannot be mapped
    bool writable = false;
    std::shared_ptr<PeerRegion> region;
  };
  static constexpr size_t kEntries = 8;  // a power of two

  static void map(Fabric& fabric, Entry& entry, uint32_t token, uint32_t key, const MrRecord& record);

  std::array<Entry, kEntries> entries_;
};

}  // namespace railwise::softdev
