// Each check has its heading on the page that reports point to, and each heading is a check.

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "tests/ok.h"

namespace railwise::doctor {
namespace {

std::string contentOf(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::set<std::string> matches(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at) found.insert((*at)[1]);
  return found;
}

TEST(DoctorLogPage, HasAHeadingForEachCheck) {
  const std::filesystem::path root = RAILWISE_SOURCE_DIR;
  std::set<std::string> checks;
  for (const char* folder : {"src/doctor/log", "src/doctor/results"}) {
    for (const auto& file : std::filesystem::recursive_directory_iterator(root / folder)) {
      if (file.path().extension() != ".cc") continue;
      // A check is a word in kebab-case alone in its quotes.
      const std::set<std::string> here = matches(contentOf(file.path()), "\"([a-z]+(?:-[a-z]+)+|watchdog)\"");
      checks.insert(here.begin(), here.end());
    }
  }
  checks.erase("railwise-doctor-log");
  checks.erase("nccl-tests");
  // What the watch calls an Xid; its page has them.
  const std::string of_watch = contentOf(root / "docs/doctor-watch.md");
  for (const std::string name : {"gpu-lost", "nvlink-error", "gpu-gsp"}) {
    EXPECT_EQ(checks.erase(name), 1U) << name;
    EXPECT_HAS(of_watch, "`" + name + "`") << name;
  }
  // A row of a table has an anchor in place of a heading.
  const std::string page = contentOf(root / "docs/doctor-log.md");
  std::set<std::string> headings = matches(page, "\n### ([a-z-]+)\n");
  const std::set<std::string> anchors = matches(page, "\n\\| <a id=\"([a-z-]+)\"></a>");
  headings.insert(anchors.begin(), anchors.end());
  EXPECT_GT(checks.size(), 40U);
  EXPECT_EQ(checks, headings);
}

}  // namespace
}  // namespace railwise::doctor
