// What the tests of the spy share: the settings that it reads when it is loaded, and its report.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "record/reader.h"
#include "scratch.h"
#include "tests/ok.h"
#include "tests/plugin/api.h"

namespace railwise::test {

// A folder for the report and the record. Call it before the plugin is loaded.
inline const Scratch& spyFolder() {
  static const Scratch folder;
  static const bool set = [] {
    setenv("RAILWISE_SPY", SPIED_PLUGIN, 1);
    setenv("RAILWISE_SPY_REPORT", folder.path("report.%p.json").c_str(), 1);
    setenv("RAILWISE_METRICS_DIR", folder.path().c_str(), 1);
    return true;
  }();
  (void)set;
  return folder;
}

// The report that the spy has written last.
inline nlohmann::json spyReport() {
  const std::string file = spyFolder().path("report." + std::to_string(getpid()) + ".json");
  std::ifstream stream(file);
  EXPECT_TRUE(stream.is_open()) << file;
  return nlohmann::json::parse(stream, nullptr, false);
}

// The newest connection of one side: "sender" or "receiver".
inline nlohmann::json newest(const nlohmann::json& report, const std::string& side) {
  nlohmann::json found;
  for (const auto& each : report["connections"]) {
    if (each["side"] == side) found = each;
  }
  EXPECT_FALSE(found.is_null()) << side;
  return found;
}

// The record of the spy, as it is now. Readers leave out the records of their own process, so the file is
// read here.
inline record::Snapshot spyRecord() {
  for (const auto& entry : std::filesystem::directory_iterator(spyFolder().path())) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("railwise-") || !name.ends_with("-spy")) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    auto read = record::parseRecord(std::as_bytes(std::span(bytes)), true, name);
    EXPECT_OK(read);
    if (read.ok()) return *read;
  }
  ADD_FAILURE() << "no record of the spy in " << spyFolder().path();
  return {};
}

}  // namespace railwise::test
