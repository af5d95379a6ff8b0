#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "doctor/log/reading/reader.h"

namespace railwise::doctor {
namespace {

class TextFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("doctor-log-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    const std::string path = folder_ / name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  std::string read(const std::string& path) {
    lines_.clear();
    return readLines(path, [&](std::string_view line) { lines_.emplace_back(line); });
  }

  std::filesystem::path folder_;
  std::vector<std::string> lines_;
};

TEST_F(TextFile, Lines) {
  EXPECT_EQ(read(write("a", "one\n\ntwo\nthree")), "");
  EXPECT_EQ(lines_, (std::vector<std::string>{"one", "", "two", "three"}));
}

TEST_F(TextFile, Gzip) {
  const std::string path = folder_ / "a.gz";
  gzFile file = gzopen(path.c_str(), "wb");
  gzputs(file, "one\ntwo\n");
  gzclose(file);
  EXPECT_EQ(read(path), "");
  EXPECT_EQ(lines_, (std::vector<std::string>{"one", "two"}));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 6);
  EXPECT_EQ(read(path), "the gzip file is cut off");
}

TEST_F(TextFile, ALongLineIsCut) {
  EXPECT_EQ(read(write("a", std::string(1 << 20, 'x') + "\nnext\n")), "");
  ASSERT_EQ(lines_.size(), 2U);
  EXPECT_EQ(lines_[0].size(), 65536U);
  EXPECT_EQ(lines_[1], "next");
}

TEST_F(TextFile, WhatCannotBeRead) {
  EXPECT_EQ(read(folder_ / "none"), "No such file or directory");
  EXPECT_EQ(read(folder_), "it is a folder: name the files in it");
}

}  // namespace
}  // namespace railwise::doctor
