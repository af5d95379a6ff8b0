// A folder for the /sys that `railwise device run` shows to its command. The folder's name identifies its
// owner (user, PID namespace, process id and start time of the process). So the next run can find and remove
// what a killed run left behind.
#pragma once

#include <string>
#include <utility>

#include "base/outcome.h"

namespace railwise::cli {

class DeviceScratch {
 public:
  // Removes the folders of owners that have ended, then makes the folder in TMPDIR, XDG_RUNTIME_DIR, /dev/shm
  // or /tmp.
  static Outcome<DeviceScratch> create();
  DeviceScratch(DeviceScratch&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  DeviceScratch& operator=(DeviceScratch&&) = delete;
  ~DeviceScratch();  // removes the folder

  const std::string& path() const { return path_; }  // absolute, without symbolic links

 private:
  explicit DeviceScratch(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace railwise::cli
