// The files of records: their names, and whether a process holds one. Any thread.
//
// The lock on a record is a POSIX lock (fcntl): a process loses it when it closes any descriptor of that
// file. So a process must not open its own record a second time; listRecords() leaves it out.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/descriptor.h"

namespace railwise::record {

// A file that is open for reading.
class File {
 public:
  // Links are not followed, and a FIFO does not block. If it cannot be opened, the file is not valid(), and
  // problem() says why.
  explicit File(const std::string& path);
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool valid() const { return problem_.empty(); }
  const std::string& problem() const { return problem_; }
  const struct stat& status() const { return status_; }
  int fd() const { return fd_.get(); }
  // False: the file does not have all of these bytes.
  bool copy(uint64_t at, void* to, std::size_t bytes) const;
  // Does another process hold the record? The answer is yes if the kernel does not say.
  bool held() const;

 private:
  Descriptor fd_;
  struct stat status_ = {};
  std::string problem_;
};

// A record in a folder. Its name is "railwise-UID-PID-START", and "-spy" behind it for the spy's.
struct RecordFile {
  std::string path;
  uint32_t user = 0;
  uint32_t pid = 0;
  uint64_t start = 0;  // of the process: field 22 of /proc/PID/stat
  bool spy = false;
  bool alive = false;  // a process holds it (a lock that ends with the process)
};

// The records of `user` in `folder`, by pid, except those of this process. Files of others, links and folders
// are left out. No error where the folder does not exist: there are none.
std::vector<RecordFile> listRecords(const std::string& folder, uint32_t user);

// The users who have files in `folder` that are named like records, in order.
std::vector<uint32_t> recordUsers(const std::string& folder);

// Records whose process is gone. Any thread.

// Removes records of `user` in `folder` whose process was found gone longer than `keep` ago, and marks those
// that are found gone now. Also
// removes the oldest of the dead where they are more than 128, or take more than an eighth of the memory of
// the folder. Returns how many were removed. Leaves out the records of the process that calls it.
int removeStaleRecords(const std::string& folder, uint32_t user, std::chrono::seconds keep);

// Removes the records of these processes of `user`, where nobody holds them any more. The caller has ended
// these processes on purpose. Returns how many were removed.
int removeRecordsOf(const std::string& folder, uint32_t user, std::span<const uint32_t> pids);

}  // namespace railwise::record
