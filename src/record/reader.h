// Reads records of processes (layout.h). A record may be of another version, cut, damaged or hostile:
// everything is checked, no reader is harmed, and no writer is stopped. Any thread.
//
// A process must not read its own record, because it would lose the lock on it (file.h). listRecords() leaves
// out the records of the process that calls it; readRecord() does not know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/outcome.h"
#include "record/snapshot.h"

namespace railwise::record {

// A record in a folder. Its name tells the user, the process and when that process began.
struct RecordFile {
  std::string path;
  uint32_t pid = 0;
  bool alive = false;  // a process holds it (a lock that ends with the process)
  bool spy = false;
};

// The folder of the records: `chosen`, or /dev/shm where that is empty.
std::string recordFolder(const std::string& chosen);

// The records of `user` in `folder`, by pid. Files of others, links and folders are left out. No error where
// the folder does not exist: there are none.
std::vector<RecordFile> listRecords(const std::string& folder, uint32_t user);

// The users who have files in `folder` that are named like records, in order.
std::vector<uint32_t> recordUsers(const std::string& folder);

// Reads and checks one record, of `owner` only where that is given. The error names the file and says what is
// wrong with it.
Outcome<Snapshot> readRecord(const std::string& path, std::optional<uint32_t> owner = std::nullopt);

// The bytes of a record; what readRecord() does after reading. `alive`: its process holds it.
Outcome<Snapshot> parseRecord(std::span<const std::byte> bytes, bool alive, const std::string& name);

// Where the bytes of a record come from: a file that its process may be writing, or memory. Internal to the
// reader.

class Source {
 public:
  virtual ~Source() = default;
  virtual uint64_t size() const = 0;
  // Copies `bytes` bytes from offset `at`. False: the source does not have all of them.
  virtual bool copy(uint64_t at, void* to, std::size_t bytes) const = 0;
};

// Reads and checks a record. `alive`: its process holds it, so a block that is being written will soon be
// whole.
Outcome<Snapshot> readSource(const Source& source, bool alive, const std::string& name);

}  // namespace railwise::record
