// The tar format, uncompressed: POSIX ustar, with GNU long names and pax paths on reading and GNU long names
// on writing. Thread-safe.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace railwise::topo {

struct TarEntry {
  enum class Kind { kFile, kFolder, kSymlink, kHardLink };
  Kind kind = Kind::kFile;
  std::string path;  // as written, "machine/sys/..."
  std::string link;
  std::string_view content;
};

// Calls `take` for each file, folder and link in order; "" or what is wrong, from the format or from `take`.
std::string readTar(std::string_view bytes, const std::function<std::string(const TarEntry&)>& take);

void appendTar(std::string& archive, const TarEntry& entry);
void endTar(std::string& archive);

}  // namespace railwise::topo
