// The tar format, uncompressed: POSIX ustar. Reads GNU long names and pax paths; writes GNU long names.
// Thread-safe.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace railwise::sysfs {

struct TarEntry {
  enum class Kind { kFile, kFolder, kSymlink, kHardLink };
  Kind kind = Kind::kFile;
  std::string path;  // as in the archive, "machine/sys/..."
  std::string link;
  std::string_view content;
};

// Calls `take` for each file, folder and link in order. Returns "" or an error text, of the format or of
// `take`.
std::string readTar(std::string_view bytes, const std::function<std::string(const TarEntry&)>& take);

void appendTar(std::string& archive, const TarEntry& entry);
void endTar(std::string& archive);

}  // namespace railwise::sysfs
