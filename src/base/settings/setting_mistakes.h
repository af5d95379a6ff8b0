// Settings whose values are wrong, contradict each other, or are no longer read. Each mistake says what
// happens and what to do. Pure functions of an environment that the caller passes, which may be that of
// another machine. Thread-safe.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/settings/setting_names.h"

namespace railwise {

struct SettingMistake {
  enum class Kind : uint8_t { kValue, kContradiction, kNoLongerRead };
  Kind kind;
  std::string name;         // the variable
  std::string other;        // of a contradiction: the other variable; else ""
  std::string text;         // what is wrong, and what happens; names the variables with their values
  std::string fix;          // what to do
  bool init_fails = false;  // NCCL's init, or the plugin's, will fail by it
};

// Numbers out of range, words that are none, text where a number belongs.
std::vector<SettingMistake> valueMistakes(const Environment& environment);
// Two settings of which one has no effect because of the other, and settings that switch Railwise off.
std::vector<SettingMistake> contradictions(const Environment& environment);
// Variables that NCCL has had before 2.13 and no longer reads.
std::vector<SettingMistake> settingsNoLongerRead(const Environment& environment);

// Settings that NCCL takes and that hide a fault, or make a hang of an error.
struct HidingSetting {
  enum class Kind : uint8_t {
    kHangs,     // an error becomes a hang
    kHides,     // an error is not reported
    kNoRdma,    // NICs for RDMA are not used
    kLeftOver,  // is for an experiment, and slow or fragile in every other job
  };
  const char* name;
  bool (*hides)(const std::string& value);
  Kind kind;
  const char* why;
};
std::span<const HidingSetting> hidingSettings();

// All mistakes above, in this order.
std::vector<SettingMistake> settingMistakes(const Environment& environment);

}  // namespace railwise
