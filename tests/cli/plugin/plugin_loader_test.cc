#include "cli/plugin/plugin_loader.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/library_file.h"
#include "nccl/net_v8.h"
#include "tests/ok.h"

namespace railwise::cli {
namespace {

PluginOptions pluginOptions(const char* plugin, int api = 0) { return {.plugin = plugin, .api = api}; }

std::string loadError(const PluginOptions& options, Code code) {
  const auto plugin = loadPlugin(options);
  EXPECT_FALSE(plugin.ok());
  EXPECT_EQ(plugin.failure().code, code);
  return plugin.error();
}

TEST(LoadPlugin, TakesTheNewestVersion) {
  const auto newest = loadPlugin(pluginOptions(LOOPBACK_PLUGIN));
  ASSERT_OK(newest);
  EXPECT_EQ(newest->api->version(), 12);
  EXPECT_STREQ(newest->api->name(), "Loopback");
  EXPECT_EQ(newest->path, LOOPBACK_PLUGIN);
  const auto old = loadPlugin(pluginOptions(LOOPBACK_OLD_PLUGIN));
  ASSERT_OK(old);
  EXPECT_EQ(old->api->version(), 8);
}

TEST(LoadPlugin, StartsEveryVersion) {
  for (int version = kOldestApi; version <= kNewestApi; ++version) {
    const auto plugin = loadPlugin(pluginOptions(LOOPBACK_PLUGIN, version));
    ASSERT_OK(plugin);
    const auto devices = startPlugin(*plugin->api, 1);
    ASSERT_OK(devices);
    EXPECT_EQ(*devices, 2);
    NetProperties properties;
    ASSERT_EQ(plugin->api->getProperties(1, &properties), ncclSuccess);
    EXPECT_EQ(properties.name, "loop1v" + std::to_string(version));
    EXPECT_EQ(properties.guid, 2u);
    EXPECT_EQ(properties.speed_mbps, 10'000);
    EXPECT_EQ(properties.max_recvs, 1);
    EXPECT_EQ(properties.rail, version == 12 ? 1 : NCCL_NET_ID_UNDEF);
    EXPECT_EQ(plugin->api->finalize(), ncclSuccess);
  }
}

TEST(LoadPlugin, AFileThatIsCutOffIsNoPluginAndNoCrash) {
  const std::string folder = testing::TempDir();
  const std::string file = folder + "libnccl-net-cut.so";
  std::filesystem::copy_file(LOOPBACK_PLUGIN, file, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::resize_file(file, 4096);
  EXPECT_HAS(loadError(pluginOptions(file.c_str()), Code::kSystem), file + ": it is cut off");
  setenv("LD_LIBRARY_PATH", folder.c_str(), 1);
  EXPECT_HAS(loadError(pluginOptions("cut"), Code::kSystem), "libnccl-net-cut.so: it is cut off");
  unsetenv("LD_LIBRARY_PATH");
  EXPECT_EQ(libraryFileAt(LOOPBACK_PLUGIN), LibraryFile::kLoadable);
  std::ofstream(file) << "text";
  EXPECT_EQ(libraryFileAt(file), LibraryFile::kNoLibrary);
  std::filesystem::remove(file);
  EXPECT_EQ(libraryFileAt(file), LibraryFile::kNotThere);
}

TEST(LoadPlugin, SaysWhatItExports) {
  const std::string error = loadError(pluginOptions(LOOPBACK_OLD_PLUGIN, 11), Code::kInvalidUsage);
  EXPECT_HAS(error, "does not export ncclNetPlugin_v11; it exports v8, v7, v6");
}

TEST(LoadPlugin, SaysWhatItTried) {
  const std::string error = loadError(pluginOptions("no-such-plugin"), Code::kSystem);
  EXPECT_HAS(error, "libnccl-net-no-such-plugin.so");
  const std::string not_a_plugin = loadError(pluginOptions("libm.so.6.so"), Code::kSystem);
  EXPECT_HAS(not_a_plugin, "libm.so.6.so");
}

TEST(LoadPlugin, ALibraryWithoutTheSymbolIsNoPlugin) {
  const std::string error = loadError(pluginOptions("libm.so.6"), Code::kSystem);
  EXPECT_HAS(error, "does not export any ncclNetPlugin_v6 .. ncclNetPlugin_v12");
}

// As nccl-rdma-sharp-plugins does: before init the table has a name and init, no more.
ncclNet_v8_t g_whole = {};
ncclNet_v8_t g_filled_by_init = {};

ncclResult_t fillAndInit(ncclDebugLogger_t logger) {
  g_filled_by_init = g_whole;
  return g_whole.init(logger);
}
ncclResult_t initOnly(ncclDebugLogger_t) { return ncclSuccess; }

TEST(StartPlugin, TakesATableThatInitFills) {
  void* const library = dlopen(LOOPBACK_PLUGIN, RTLD_NOW);
  ASSERT_NE(library, nullptr);
  const auto* const table = static_cast<const ncclNet_v8_t*>(dlsym(library, "ncclNetPlugin_v8"));
  ASSERT_NE(table, nullptr);
  g_whole = *table;
  g_filled_by_init.init = fillAndInit;
  const auto api = NetApi::create(8, &g_filled_by_init);
  ASSERT_OK(api);
  const auto devices = startPlugin(**api, 1);
  ASSERT_OK(devices);
  EXPECT_EQ(*devices, 2);
}

TEST(StartPlugin, SaysWhatATableLacksAfterInit) {
  ncclNet_v8_t table = {};
  table.name = "half";
  table.init = initOnly;
  const auto api = NetApi::create(8, &table);
  ASSERT_TRUE(api.ok()) << api.error();
  EXPECT_EQ(startPlugin(**api, 1).error(), "plugin half: ncclNetPlugin_v8 has no devices");
  table.init = nullptr;
  EXPECT_EQ(NetApi::create(8, &table).error(), "ncclNetPlugin_v8 has no init");
}

TEST(ResultText, NamesEveryCode) {
  EXPECT_EQ(resultText(ncclRemoteError), "ncclRemoteError (the peer failed or left, or no path to it works)");
  EXPECT_EQ(resultText(static_cast<ncclResult_t>(99)), "result 99 (unknown)");
}

}  // namespace
}  // namespace railwise::cli
