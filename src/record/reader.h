// Reads records of processes (layout.h). A record may be of another version, cut, damaged or hostile:
// everything is checked, no reader is harmed, and no writer is stopped. Any thread.
//
// A process must not read its own record, because it would lose the lock on it (file.h). listRecords() leaves
// out the records of the process that calls it; readRecord() does not know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/outcome.h"
#include "record/file.h"
#include "record/snapshot.h"

namespace railwise::record {

// Reads and checks one record, of `owner` only where that is given. The error names the file and says what is
// wrong with it.
Outcome<Snapshot> readRecord(const std::string& path, std::optional<uint32_t> owner = std::nullopt);

// The bytes of a record; what readRecord() does after reading. `alive`: its process holds it.
Outcome<Snapshot> parseRecord(std::span<const std::byte> bytes, bool alive, const std::string& name);

// Copies `bytes` bytes of a record from offset `at`. False: it does not have all of them.
using CopyBytes = std::function<bool(uint64_t at, void* to, std::size_t bytes)>;

// Reads and checks a record of `size` bytes. `alive`: its process holds it, so a block that is being written
// will soon be whole. Internal to the reader.
Outcome<Snapshot> readBytes(uint64_t size, const CopyBytes& copy, bool alive, const std::string& name);

}  // namespace railwise::record
