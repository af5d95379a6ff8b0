// Where the bytes of a record come from: a file that its process may be writing, or memory. Internal to the
// reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/outcome.h"
#include "record/snapshot.h"

namespace railwise::record {

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
