// A folder of the test's own, gone with it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace railwise::test {

class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "railwise-test-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // Writes a file, with the folders above it, and returns its path.
  std::string file(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return file.string();
  }
  // Of the folder itself without a name.
  std::string path(const std::string& name = "") const {
    return name.empty() ? path_.string() : (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

// A file of the test's own, gone with it.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& name, const std::string& text = "")
      : path_(folder_.file(name, text)) {}
  const std::string& path() const { return path_; }
  std::string folder() const { return folder_.path(); }

 private:
  const Scratch folder_;
  const std::string path_;
};

}  // namespace railwise::test
