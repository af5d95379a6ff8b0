#include "base/settings/setting_mistakes.h"

#include <cerrno>
#include <cstdlib>
#include <iterator>

#include "base/settings/config.h"
#include "base/text/closest_name.h"
#include "base/text/words.h"

namespace railwise {
namespace {

using Kind = NcclVariable::Kind;

std::string upperText(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return upper;
}

std::vector<std::string> splitAt(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const auto end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool isAmong(const std::string& word, const std::vector<std::string>& words, bool exact) {
  for (const std::string& known : words) {
    if (exact ? word == known : upperText(word) == upperText(known)) return true;
  }
  return false;
}

std::string didYouMean(const std::string& word, const std::vector<std::string>& words) {
  std::vector<std::string> upper;
  for (const std::string& known : words) upper.push_back(upperText(known));
  const auto near = closest(upperText(word), upper);
  return near ? "; did you mean " + *near + "?" : "";
}

SettingMistake ofValue(const std::string& name, std::string text, std::string fix) {
  return {SettingMistake::Kind::kValue, name, "", std::move(text), std::move(fix)};
}

// What strtoll(value, nullptr, 0) of NCCL makes of a value.
struct NcclNumber {
  long long value = 0;
  std::string rest;  // what NCCL does not look at
  bool fits = true;
};

NcclNumber ncclNumber(const std::string& text) {
  NcclNumber number;
  char* end = nullptr;
  errno = 0;
  number.value = std::strtoll(text.c_str(), &end, 0);
  number.fits = errno == 0;
  number.rest = end;
  return number;
}

void checkNumber(const NcclVariable& row, const std::string& value, std::vector<SettingMistake>& found) {
  const std::string assignment = std::string(row.name) + "=" + value;
  const bool ranged = row.min != std::numeric_limits<int64_t>::min();
  const std::string range =
      ranged ? "a number from " + std::to_string(row.min) + " to " + std::to_string(row.max) : "a number";
  const NcclNumber number = ncclNumber(value);
  if (!number.fits) {
    found.push_back(ofValue(row.name, assignment + " is larger than NCCL's numbers: NCCL uses the default",
                            "set " + range));
  } else if (number.rest.size() == value.size() || !number.rest.empty()) {
    found.push_back(ofValue(row.name,
                            assignment + " is not a number: NCCL reads it as " +
                                std::to_string(number.value) + " and says nothing",
                            "set " + range));
  } else if (ranged && (number.value < row.min || number.value > row.max)) {
    found.push_back(ofValue(
        row.name, assignment + " is out of range: " + range + " has a meaning, and NCCL does not check",
        "set " + range));
  }
}

void checkWord(const NcclVariable& row, const std::string& value, std::vector<SettingMistake>& found) {
  const std::vector<std::string> words = splitAt(row.words, ',');
  if (isAmong(value, words, row.kind == Kind::kExactWord)) return;
  std::string text = std::string(row.name) + "=" + value + " is none of its words";
  if (isAmong(value, words, false)) text += ", which NCCL wants in capital letters";
  found.push_back(ofValue(row.name, text + didYouMean(value, words), "set one of " + joined(words)));
}

// NCCL_ALGO and NCCL_PROTO: lists of words after an optional ^; since 2.24 several lists, each after the name
// of a collective and a colon, with semicolons between them. NCCL_DEBUG_SUBSYS is one list.
struct ListOfWords {
  const char* name;
  const char* words;
  bool by_collective;
};

constexpr const char* kCollectives = "Broadcast,Reduce,AllGather,ReduceScatter,AllReduce";
constexpr ListOfWords kLists[] = {
    {"NCCL_ALGO", "Tree,Ring,CollNet,CollNetDirect,CollNetChain,NVLS,NVLSTree,PAT", true},
    {"NCCL_PROTO", "LL,LL128,Simple", true},
    {"NCCL_DEBUG_SUBSYS",
     "INIT,COLL,P2P,SHM,NET,GRAPH,TUNING,ENV,ALLOC,ALLOC_HOST,CALL,PROXY,NVLS,BOOTSTRAP,REG,PROFILE,RAS,"
     "DESTROY,"
     "VERBS,ALL",
     false},
};

void checkList(const ListOfWords& row, const std::string& value, std::vector<SettingMistake>& found) {
  const auto check = [&](std::string word, const char* known) {
    if (word.starts_with('^')) word.erase(0, 1);
    const std::vector<std::string> words = splitAt(known, ',');
    if (isAmong(word, words, false)) return;
    found.push_back(ofValue(row.name,
                            std::string(row.name) + "=" + value + ": \"" + word + "\" is none of " +
                                joined(words) + didYouMean(word, words),
                            "correct the word"));
  };
  for (std::string list : row.by_collective ? splitAt(value, ';') : std::vector<std::string>{value}) {
    if (const auto colon = list.find(':'); row.by_collective && colon != std::string::npos) {
      check(list.substr(0, colon), kCollectives);
      list.erase(0, colon + 1);
    }
    for (const std::string& word : splitAt(list, ',')) check(word, row.words);
  }
}

}  // namespace

std::vector<SettingMistake> valueMistakes(const Environment& environment) {
  std::vector<SettingMistake> found;
  for (const auto& [name, value] : environment) {
    if (value.empty()) continue;
    if (const std::string accepted = acceptedInstead(name, value); !accepted.empty()) {
      const bool fails = name == "RAILWISE_STRICT";
      found.push_back(ofValue(name,
                              name + "=" + value + " is not accepted: " +
                                  (fails ? "init will fail" : "it is as if it were not set"),
                              "accepted: " + accepted));
      found.back().init_fails = fails;
      continue;
    }
    for (const ListOfWords& row : kLists) {
      if (name == row.name) checkList(row, value, found);
    }
    const NcclVariable* row = findNcclVariable(name);
    if (row == nullptr) continue;
    if (row->kind == Kind::kNumber) checkNumber(*row, value, found);
    if (row->kind == Kind::kWord || row->kind == Kind::kExactWord) checkWord(*row, value, found);
  }
  return found;
}

std::vector<SettingMistake> settingsNoLongerRead(const Environment& environment) {
  std::vector<SettingMistake> found;
  for (const auto& [name, value] : environment) {
    const NcclVariable* row = findNcclVariable(name);
    if (row == nullptr || !row->gone) continue;
    const std::string instead = row->instead;
    found.push_back(
        {SettingMistake::Kind::kNoLongerRead, name, "",
         name + "=" + value + " has no effect: NCCL " + row->until + " was the last to read it",
         instead.empty() ? "unset " + name : "unset " + name + "; " + instead + " took its place"});
  }
  return found;
}

std::vector<SettingMistake> settingMistakes(const Environment& environment) {
  std::vector<SettingMistake> all = valueMistakes(environment);
  for (auto* more : {&contradictions, &settingsNoLongerRead}) {
    std::vector<SettingMistake> found = more(environment);
    all.insert(all.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
  }
  return all;
}

}  // namespace railwise
