// Records whose process is gone. Any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

namespace railwise::record {

// Removes records of `user` in `folder` whose process was found gone longer than `keep` ago, and marks those
// that are found gone now. Also
// removes the oldest of the dead where they are more than 128, or take more than an eighth of the memory of
// the folder. Returns how many were removed. Leaves out the records of the process that calls it.
int removeStaleRecords(const std::string& folder, uint32_t user, std::chrono::seconds keep);

// Removes the records of these processes of `user`, where nobody holds them any more. The caller has ended
// these processes on purpose. Returns how many were removed.
int removeRecordsOf(const std::string& folder, uint32_t user, std::span<const uint32_t> pids);

}  // namespace railwise::record
