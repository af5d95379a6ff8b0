#include "base/installed_folders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

namespace railwise {
namespace {

// The plugin's tests are about a library: they load the software device, which lies beside the plugin.
TEST(InstalledFolders, OfAProgramLieBesideItAndInTheLibraryFoldersNextToIt) {
  const auto own = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::vector<std::string> folders = installedFolders("name");
  ASSERT_FALSE(folders.empty());
  EXPECT_EQ(folders.front(), (own / "name").string());
  for (const char* library_folder : {"lib", "lib64"}) {
    const std::string wanted = (own.parent_path() / library_folder / "name").string();
    EXPECT_EQ(std::count(folders.begin(), folders.end(), wanted), 1) << wanted;
  }
}

}  // namespace
}  // namespace railwise
