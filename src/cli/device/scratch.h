// A folder for the /sys that `railwise device run` shows its command. Its name tells whose it is (user, PID
// namespace, process and when that started), so that what a killed run left behind is found and removed by
// the next.
#pragma once

#include <string>

namespace railwise::tools {

class DeviceScratch {
 public:
  // Makes it, below TMPDIR, XDG_RUNTIME_DIR, /dev/shm or /tmp, after removing those of dead owners. Empty
  // path: `error` says why.
  explicit DeviceScratch(std::string* error);
  DeviceScratch(const DeviceScratch&) = delete;
  DeviceScratch& operator=(const DeviceScratch&) = delete;
  ~DeviceScratch();  // removes it

  const std::string& path() const { return path_; }  // without links

 private:
  std::string path_;
};

}  // namespace railwise::tools
