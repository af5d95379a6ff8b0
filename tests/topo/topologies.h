// Where the real topologies are: RAILWISE_TOPOLOGIES, else ../shared/topologies beside the repository. Tests
// that need them are skipped without them.
#pragma once

#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace railwise::topo::test {

inline std::string topologiesFolder() {
  const char* told = std::getenv("RAILWISE_TOPOLOGIES");
#ifdef RAILWISE_SOURCE_DIR
  std::string folder = told != nullptr ? told : RAILWISE_SOURCE_DIR "/../shared/topologies";
#else
  std::string folder = told != nullptr ? told : "../shared/topologies";
#endif
  struct stat info;
  return ::stat((folder + "/sysfs.tsv").c_str(), &info) == 0 ? folder : std::string();
}

inline std::string readFile(const std::string& path) {
  std::string content;
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return content;
  char buffer[65536];
  for (std::size_t count = 0; (count = std::fread(buffer, 1, sizeof buffer, file)) > 0;)
    content.append(buffer, count);
  std::fclose(file);
  return content;
}

}  // namespace railwise::topo::test
