// The record of the test's own process.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <vector>

#include "record/process_record.h"
#include "record/reader.h"

namespace railwise::test {

// Read through the descriptor of the writer: a second one would end this process's lock, and another test
// would take the record for that of a dead process.
inline Outcome<record::Snapshot> ownRecord() {
  const record::Record* const record = record::currentRecord();
  if (record == nullptr) return Error{"this process has no record"};
  struct stat status = {};
  (void)fstat(record->fd(), &status);
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  if (pread(record->fd(), bytes.data(), bytes.size(), 0) != status.st_size)
    return Error{"the record cannot be read"};
  return record::parseRecord(bytes, true, record->path());
}

}  // namespace railwise::test
