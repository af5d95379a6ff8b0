// The file of a record: its name, and whether a process holds it. Any thread.
//
// The lock on a record is a POSIX lock (fcntl): a process loses it when it closes any descriptor of that
// file. So a process must not open its own record a second time; visitRecords() leaves it out.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/descriptor.h"

namespace railwise::record {

// A file that is open for reading.
class File {
 public:
  // `path` below the folder that is open as `folder`, or AT_FDCWD. Links are not followed, and a FIFO does
  // not block. If it cannot be opened, the file is not valid(), and problem() says why.
  File(int folder, const char* path);
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

// "railwise-UID-PID-START", and "-spy" behind it for the spy's.
struct RecordName {
  uint64_t user = 0;
  uint64_t pid = 0;
  uint64_t start = 0;  // of the process: field 22 of /proc/PID/stat
  bool spy = false;
};

// Calls visit(file name, what the name says) for each file in `folder` whose name is that of a record, except
// those of this process.
void visitRecordNames(const std::string& folder,
                      const std::function<void(const char*, const RecordName&, int folder_fd)>& visit);

// Opens the records of `user` in `folder` one after the other, except those of this process, and calls
// visit(file name, what the name says, file, descriptor of the folder). Files of others, links and folders
// are left out.
void visitRecords(
    const std::string& folder, uint32_t user,
    const std::function<void(const char*, const RecordName&, const File&, int folder_fd)>& visit);

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
