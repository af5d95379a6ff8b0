// Memory that two processes can share. A region that lies in a shared mapping of a file (a memory file,
// /dev/shm, a deleted file) is published with its file. A peer maps the file and copies into it, which takes
// tens of nanoseconds; a system call takes a microsecond. Private memory stays as it is (remap.h can change
// it).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "softdev/fabric/fabric.h"

namespace railwise::softdev {

// The owner's side: a descriptor of the file behind a region, open while regions use it. All regions in one
// file share it.
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

// Device and inode in one number. Equal for one file while any process has it open.
uint64_t fileIdentity(uint64_t device, uint64_t inode);

// The file behind [address, address + length), if all of it is one contiguous range of one file, mapped
// shared and (if `writing`) writable. *offset is where the range begins in the file. Null for everything
// else, and if no descriptor of the file can be had. Asks the kernel each time, because the mapping at an
// address may change at any time.
std::shared_ptr<BackingFile> findBacking(uint64_t address, uint64_t length, bool writing, uint64_t* offset);

// Makes a file that we created known to findBacking(), because there may be no other way to a descriptor of
// it.
void rememberBacking(const std::shared_ptr<BackingFile>& file);

// Writes `file` (may be null) into a region's record. Call it before the key is written.
void publishBacking(MrRecord& record, const BackingFile* file, uint64_t offset);

// The side of the process that posts: a peer's region, mapped into this process. The last user unmaps it.
class PeerRegion;

// Regions of one peer process that a queue pair uses. The queue pair's sq_lock guards them. A few entries are
// enough, because an application registers few large regions and addresses parts of them.
class PeerRegions {
 public:
  // The address in this process of `address` in region `key` of the process with `token`. Null if the region
  // cannot be mapped. The caller holds the peer's responder lock and has checked the key and the range under
  // it, so that the region stays while the bytes are copied.
  std::byte* find(Fabric& fabric, uint32_t token, uint32_t key, const std::byte* address, bool writing);
  // Unmaps the regions that are not registered any more.
  void sweep(const Segment& segment);
  void clear();

 private:
  struct Entry {
    uint32_t key = 0;
    uint32_t token = 0;
    uint64_t identity = 0;
    uint64_t offset = 0;
    uint64_t address = 0;  // address of the region in the peer
    uint64_t length = 0;
    std::byte* memory = nullptr;  // address of the region here; null: it cannot be mapped
    bool writable = false;
    std::shared_ptr<PeerRegion> region;
  };
  static constexpr size_t kEntries = 8;  // a power of two

  static void map(Fabric& fabric, Entry& entry, uint32_t token, uint32_t key, const MrRecord& record);

  std::array<Entry, kEntries> entries_;
};

}  // namespace railwise::softdev
