#include "record/reader.h"

namespace railwise::record {
namespace {

// What no record exceeds: tables and 65536 slots of 64 KiB.
constexpr off_t kMostBytes = kSlotsAt + off_t{65536} * 65536;

}  // namespace

Outcome<Snapshot> readRecord(const std::string& path, std::optional<uint32_t> owner) {
  const File file(path);
  if (!file.valid()) return Error{path + ": " + file.problem()};
  if (owner && file.status().st_uid != *owner)
    return Error{path + ": belongs to user " + std::to_string(file.status().st_uid) + ", not to user " +
                 std::to_string(*owner)};
  if (file.status().st_size > kMostBytes)
    return Error{path + ": " + std::to_string(file.status().st_size) + " bytes are too many for a record"};
  const bool alive = file.held();  // asked first: what a process that is gone has written is complete
  const auto copy = [&](uint64_t at, void* to, std::size_t bytes) { return file.copy(at, to, bytes); };
  return readBytes(static_cast<uint64_t>(file.status().st_size), copy, alive, path);
}

}  // namespace railwise::record
