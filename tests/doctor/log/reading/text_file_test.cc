#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <vector>

#include "doctor/log/reading/reader.h"
#include "tests/scratch.h"

namespace railwise::doctor {
namespace {

class TextFile : public testing::Test {
 protected:
  std::string read(const std::string& path) {
    lines_.clear();
    return readLines(path, [&](std::string_view line) { lines_.emplace_back(line); });
  }

  const railwise::test::Scratch folder_;
  std::vector<std::string> lines_;
};

TEST_F(TextFile, Lines) {
  EXPECT_EQ(read(folder_.file("a", "one\n\ntwo\nthree")), "");
  EXPECT_EQ(lines_, (std::vector<std::string>{"one", "", "two", "three"}));
}

TEST_F(TextFile, Gzip) {
  const std::string path = folder_.path("a.gz");
  gzFile file = gzopen(path.c_str(), "wb");
  gzputs(file, "one\ntwo\n");
  gzclose(file);
  EXPECT_EQ(read(path), "");
  EXPECT_EQ(lines_, (std::vector<std::string>{"one", "two"}));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 6);
  EXPECT_EQ(read(path), "the gzip file is cut off");
}

TEST_F(TextFile, ALongLineIsCut) {
  EXPECT_EQ(read(folder_.file("a", std::string(1 << 20, 'x') + "\nnext\n")), "");
  ASSERT_EQ(lines_.size(), 2U);
  EXPECT_EQ(lines_[0].size(), 65536U);
  EXPECT_EQ(lines_[1], "next");
}

TEST_F(TextFile, WhatCannotBeRead) {
  EXPECT_EQ(read(folder_.path("none")), "No such file or directory");
  EXPECT_EQ(read(folder_.path()), "it is a folder: name the files in it");
}

}  // namespace
}  // namespace railwise::doctor
