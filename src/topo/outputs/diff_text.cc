#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "base/text/words.h"
#include "topo/explain/describe.h"
#include "topo/outputs/outputs.h"

namespace railwise::topo {
namespace {

struct Kind {
  const char* name;
  const char* title;
};
constexpr Kind kKinds[] = {
    {"device", "Devices"},
    {"numa", "NUMA node of a device"},
    {"link", "Links"},
    {"domain", "Parts that NCCL sees"},
    {"nic", "NIC of a GPU, channel by channel"},
    {"path", "Paths"},
    {"gpudirect", "GPUDirect RDMA"},
    {"p2p", "GPU to GPU directly (P2P)"},
    {"pxn", "PXN: sending through another GPU"},
};

// Splits "GPU/12" into "GPU/" and 12. False: the id has no number, for example an address.
bool splitNumber(const std::string& id, std::string& stem, int& number) {
  std::size_t digits = id.size();
  while (digits > 0 && std::isdigit(static_cast<unsigned char>(id[digits - 1])) != 0) --digits;
  if (digits == id.size() || digits == 0 || id[digits - 1] != '/' || id.size() - digits > 6) return false;
  stem = id.substr(0, digits);
  number = std::stoi(id.substr(digits));
  return true;
}

// Joins several ids to "GPU/0..3, GPU/5": consecutive numbers become a range.
std::string idsText(const std::set<std::string>& ids) {
  std::map<std::string, std::vector<int>> numbers;
  std::vector<std::string> others;
  for (const std::string& id : ids) {
    std::string stem;
    int number = 0;
    if (splitNumber(id, stem, number)) {
      numbers[stem].push_back(number);
    } else {
      others.push_back(id);
    }
  }
  std::vector<std::string> parts;
  for (auto& [stem, list] : numbers) {
    std::sort(list.begin(), list.end());
    for (std::size_t i = 0; i < list.size();) {
      std::size_t last = i;
      while (last + 1 < list.size() && list[last + 1] == list[last] + 1) ++last;
      parts.push_back(stem + std::to_string(list[i]) + (last > i ? ".." + std::to_string(list[last]) : ""));
      i = last + 1;
    }
  }
  const std::size_t shown = 6;
  if (others.size() > shown) {
    const std::size_t more = others.size() - shown;
    others.resize(shown);
    others.push_back(std::to_string(more) + " more");
  }
  parts.insert(parts.end(), others.begin(), others.end());
  return joined(parts);
}

// All things whose text changed from `left` to `right`.
struct Group {
  std::string left;
  std::string right;
  std::vector<std::string> whats;
};

// Lists pairs such as "GPU/0 -> NET/1", if they cannot be written as two lists.
std::string pairsText(const std::vector<std::string>& whats) {
  constexpr std::size_t kShown = 6;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, whats.size()); ++i) text += (i > 0 ? ", " : "") + whats[i];
  if (whats.size() > kShown) text += " and " + std::to_string(whats.size() - kShown) + " more";
  return text;
}

// Writes the pairs of a group. If every first id is paired with every second id, writes two lists. If any two
// of the ids are paired, writes one list. Otherwise lists the pairs.
std::string endsText(const Group& group) {
  std::set<std::string> from;
  std::set<std::string> to;
  std::string arrow;
  for (const std::string& what : group.whats) {
    std::size_t at = what.find(" -> ");
    arrow = " -> ";
    if (at == std::string::npos) at = what.find(" - "), arrow = " - ";
    from.insert(what.substr(0, at));
    if (at != std::string::npos) to.insert(what.substr(at + arrow.size()));
  }
  if (to.empty()) return idsText(from);
  const std::size_t count = std::set<std::string>(group.whats.begin(), group.whats.end()).size();
  if (count == from.size() * to.size()) return idsText(from) + arrow + idsText(to);
  std::set<std::string> both = from;
  both.insert(to.begin(), to.end());
  const std::size_t ordered = both.size() * (both.size() - 1);
  const bool clique = arrow == " -> " ? count == ordered : count * 2 == ordered;
  return clique ? "any two of " + idsText(both) : pairsText(group.whats);
}

std::string groupText(const Group& group, bool pairs) {
  const auto count = static_cast<int>(group.whats.size());
  std::string text = "  " + endsText(group) + ": ";
  if (group.left.empty()) {
    text += "only on the right: " + group.right;
  } else if (group.right.empty()) {
    text += "only on the left: " + group.left;
  } else {
    text += group.left + " became " + group.right;
  }
  const bool lone = group.left.empty() || group.right.empty();
  if (count > 1 && !pairs && lone) text += ", and " + std::to_string(count - 1) + " more";
  if (count > 1 && pairs) text += " (" + std::to_string(count) + " pairs)";
  return text + "\n";
}

// Returns "GPU>NET" for "GPU/0 -> NET/1". Only pairs of equal types are in one group.
std::string typesOf(const std::string& what) {
  const auto typeAt = [&](std::size_t at) { return what.substr(at, what.find('/', at) - at); };
  std::size_t to = what.find(" -> ");
  if (to == std::string::npos) to = what.find(" - ");
  return typeAt(0) + (to == std::string::npos ? "" : ">" + typeAt(what.find_first_not_of(" ->", to)));
}

// Puts all devices that one side lacks into one group, whatever their texts are.
std::string sideText(const Difference& difference, const std::string& text) {
  const bool lone = difference.left.empty() || difference.right.empty();
  return lone && difference.kind == "device" && !text.empty() ? "lone" : text;
}

std::vector<Group> groupsOf(const std::vector<Difference>& differences, const std::string& kind) {
  std::vector<Group> groups;
  std::map<std::vector<std::string>, std::size_t> known;
  for (const Difference& difference : differences) {
    if (difference.kind != kind) continue;
    const std::vector<std::string> key = {typesOf(difference.what), sideText(difference, difference.left),
                                          sideText(difference, difference.right)};
    const auto [at, added] = known.emplace(key, groups.size());
    if (added) groups.push_back({difference.left, difference.right, {}});
    groups[at->second].whats.push_back(difference.what);
  }
  return groups;
}

// The rules of NCCL that differ between the machines' releases. "": none.
std::string rulesChanged(const Machine& left, const Machine& right) {
  std::string text;
  for (const RuleChange& change : ruleChanges(left.settings->nccl, right.settings->nccl))
    text += std::string("  ") + (change.begins ? "since " : "until ") + ncclVersionName(change.release) +
            ": " + change.text + "\n";
  return text.empty() ? "" : "\nRules that differ\n" + text;
}

}  // namespace

bool sameFile(const Machine& left, const Machine& right) {
  return writeXml(*left.xml) == writeXml(*right.xml);
}

std::string diffText(const Machine& left, const Machine& right, const std::vector<Difference>& differences) {
  const auto nameOf = [](const Machine& machine) { return machine.name + " (" + rulesText(machine) + ")"; };
  const std::string rules = rulesChanged(left, right);
  if (differences.empty())
    return "no difference between " + nameOf(left) + " and " + nameOf(right) +
           (sameFile(left, right) ? "" : ", but the files that topo show --format xml writes differ") + "\n" +
           rules;
  std::string text = "left:  " + nameOf(left) + "\nright: " + nameOf(right) + "\n";
  for (const Kind& kind : kKinds) {
    const auto groups = groupsOf(differences, kind.name);
    if (groups.empty()) continue;
    text += std::string("\n") + kind.title + "\n";
    const std::string name = kind.name;
    const bool pairs =
        name == "path" || name == "gpudirect" || name == "p2p" || name == "pxn" || name == "link";
    for (const Group& group : groups) text += groupText(group, pairs);
  }
  return text + rules;
}

}  // namespace railwise::topo
