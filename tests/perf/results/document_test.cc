#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "perf/results/record.h"
#include "scratch.h"

namespace railwise::cli {
namespace {

std::string contentsOf(const std::string& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(Document, AFileThatCannotBeWrittenIsFoundBefore) {
  PerfOptions options;
  EXPECT_TRUE(checkOutputs(options).ok());
  options.timeline = "/nowhere/a.svg";
  EXPECT_EQ(checkOutputs(options).error(),
            "option --timeline: cannot write /nowhere/a.svg: No such file or directory");
  options.timeline.clear();
  options.csv_file = "/tmp";
  EXPECT_EQ(checkOutputs(options).error(), "option --csv: cannot write /tmp: Is a directory");
}

TEST(Document, TryingChangesNoFile) {
  const test::Scratch scratch;
  PerfOptions options;
  options.json_file = scratch.file("old.json", "old");
  EXPECT_TRUE(checkOutputs(options).ok());
  EXPECT_EQ(contentsOf(options.json_file), "old");
  EXPECT_TRUE(writeDocument(options.json_file, "new"));
  EXPECT_EQ(contentsOf(options.json_file), "new");
}

TEST(Document, ADeviceIsWrittenTo) {
  PerfOptions options;
  options.csv_file = "/dev/null";
  EXPECT_TRUE(checkOutputs(options).ok());
  EXPECT_TRUE(writeDocument("/dev/null", "text"));
}

}  // namespace
}  // namespace railwise::cli
