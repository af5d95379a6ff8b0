#include "base/installed_places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

namespace railwise {
namespace {

// The plugin's tests are about a library: they load the software device, which lies beside the plugin.
TEST(InstalledPlaces, OfAProgramLieBesideItAndInTheLibraryFoldersNextToIt) {
  const auto own = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::vector<std::string> places = installedPlaces("name");
  ASSERT_FALSE(places.empty());
  EXPECT_EQ(places.front(), (own / "name").string());
  for (const char* library_folder : {"lib", "lib64"}) {
    const std::string wanted = (own.parent_path() / library_folder / "name").string();
    EXPECT_EQ(std::count(places.begin(), places.end(), wanted), 1) << wanted;
  }
}

TEST(PluginFileNames, AreThoseOfNccl) {
  EXPECT_EQ(pluginFileNames("railwise"), (std::vector<std::string>{"railwise", "libnccl-net-railwise.so"}));
  EXPECT_EQ(pluginFileNames("/a/b"), (std::vector<std::string>{"/a/b"}));
  EXPECT_EQ(pluginFileNames("libx.so"), (std::vector<std::string>{"libx.so"}));
  EXPECT_EQ(pluginFileNames("x.so"), (std::vector<std::string>{"x.so", "libnccl-net-x.so.so"}));
}

}  // namespace
}  // namespace railwise
