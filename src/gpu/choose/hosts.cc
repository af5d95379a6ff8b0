#include "gpu/choose/hosts.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "base/files.h"
#include "base/text/words.h"
#include "gpu/choose/choose.h"

namespace railwise::gpu {
namespace {

class NodeChooser {
 public:
  NodeChooser(const std::vector<NodeCandidate>& candidates, int count, int groups_available)
      : candidates_(candidates),
        count_(count),
        groups_available_(groups_available),
        best_first_(candidates.size()) {
    std::iota(best_first_.begin(), best_first_.end(), 0);
    std::stable_sort(best_first_.begin(), best_first_.end(),
                     [&](int a, int b) { return at(a).score.betterThan(at(b).score); });
  }

  std::optional<NodesAnswer> choose() {
    if (count_ < 1 || candidates_.size() < static_cast<std::size_t>(count_)) return std::nullopt;
    if (groups_available_ < 1) return answerOf({best_first_.begin(), best_first_.begin() + count_});
    // The worst node decides about intra. So each intra is tried as the least that counts: of the nodes above
    // it, the groups with most of them need the fewest groups.
    std::vector<double> levels;
    for (const NodeCandidate& candidate : candidates_) levels.push_back(candidate.intra);
    std::sort(levels.rbegin(), levels.rend());
    levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
    std::optional<NodesAnswer> best;
    for (const double least : levels) {
      std::optional<NodesAnswer> answer = withAtLeast(least);
      if (answer && (!best || answer->total > best->total)) best = std::move(answer);
    }
    return best;
  }

 private:
  const NodeCandidate& at(int node) const { return candidates_[static_cast<std::size_t>(node)]; }

  std::optional<NodesAnswer> withAtLeast(double least) const {
    std::map<int, std::vector<int>> members;  // of each group, the best first
    for (const int node : best_first_)
      if (at(node).intra >= least) members[at(node).group].push_back(node);
    std::vector<const std::vector<int>*> groups;
    for (const auto& [group, nodes] : members) groups.push_back(&nodes);
    std::vector<int> nodes;
    for (auto left = static_cast<std::size_t>(count_); left > 0 && !groups.empty();) {
      // The largest group; but the last group that is needed only has to be large enough, so its nodes
      // decide.
      auto next = groups.begin();
      for (auto group = groups.begin(); group != groups.end(); ++group)
        if (const auto fit = std::min((*group)->size(), left), best = std::min((*next)->size(), left);
            fit > best || (fit == best && betterNodes(**group, **next, left)))
          next = group;
      const std::size_t taken = std::min(left, (*next)->size());
      nodes.insert(nodes.end(), (*next)->begin(), (*next)->begin() + static_cast<std::ptrdiff_t>(taken));
      left -= taken;
      groups.erase(next);
    }
    if (nodes.size() < static_cast<std::size_t>(count_)) return std::nullopt;
    return answerOf(std::move(nodes));
  }

  // Are the first `count` nodes of `a` better than those of `b`? Both begin with their best nodes.
  bool betterNodes(const std::vector<int>& a, const std::vector<int>& b, std::size_t count) const {
    for (std::size_t i = 0; i < std::min({count, a.size(), b.size()}); ++i) {
      const Score& mine = at(a[i]).score;
      const Score& other = at(b[i]).score;
      if (mine.betterThan(other)) return true;
      if (other.betterThan(mine)) return false;
    }
    return false;
  }

  NodesAnswer answerOf(std::vector<int> nodes) const {
    std::sort(nodes.begin(), nodes.end());
    NodesAnswer answer;
    answer.intra = 1;
    std::map<int, int> groups;
    for (const int node : nodes) {
      answer.intra = std::min(answer.intra, at(node).intra);
      if (at(node).group >= 0) ++groups[at(node).group];
    }
    answer.groups = static_cast<int>(groups.size());
    if (groups_available_ > 0) answer.inter = interFitness(answer.groups, groups_available_);
    answer.total = groups_available_ > 0
                       ? totalFitness(static_cast<int>(nodes.size()), answer.inter, answer.intra)
                       : answer.intra;
    answer.nodes = std::move(nodes);
    return answer;
  }

  const std::vector<NodeCandidate>& candidates_;
  const int count_;
  const int groups_available_;
  std::vector<int> best_first_;
};

constexpr std::size_t kMostHosts = 65536;  // of one list: more is a typing mistake such as [1-99999999]
constexpr std::size_t kMostDigits = 9;

constexpr std::string_view kBlanks = " \t\r";

// At `separator` outside of brackets. Nothing: brackets do not match.
std::optional<std::vector<std::string_view>> splitOutside(std::string_view text, char separator) {
  std::vector<std::string_view> items;
  std::size_t from = 0;
  bool inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[' || text[i] == ']') {
      if (inside == (text[i] == '[')) return std::nullopt;
      inside = !inside;
    }
    if (text[i] != separator || inside) continue;
    items.push_back(text.substr(from, i - from));
    from = i + 1;
  }
  if (inside) return std::nullopt;
  items.push_back(text.substr(from));
  return items;
}

bool isNumber(std::string_view text) {
  return !text.empty() && text.size() <= kMostDigits &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

// "1-4,07" -> "1" ... "4", "07"; empty: it is no list of numbers, or too long a one.
std::vector<std::string> expandNumbers(std::string_view ranges) {
  std::vector<std::string> numbers;
  const auto items = splitOutside(ranges, ',');
  if (!items) return {};
  for (const std::string_view range : *items) {
    const std::size_t dash = range.find('-');
    const std::string_view low = range.substr(0, dash);
    const std::string_view high = dash == std::string_view::npos ? low : range.substr(dash + 1);
    if (!isNumber(low) || !isNumber(high)) return {};
    const unsigned long first = std::stoul(std::string(low));
    const unsigned long last = std::stoul(std::string(high));
    if (last < first || last - first >= kMostHosts || numbers.size() >= kMostHosts) return {};
    for (unsigned long number = first; number <= last; ++number) {
      const std::string digits = std::to_string(number);
      numbers.push_back(std::string(low.size() > digits.size() ? low.size() - digits.size() : 0, '0') +
                        digits);
    }
  }
  return numbers;
}

Outcome<std::vector<std::string>> expandOne(std::string_view pattern) {
  const Error bad{"'" + std::string(pattern) + "' is no host name and no list such as node[1-4,7]",
                  Code::kInvalidArgument};
  std::vector<std::string> hosts = {""};
  while (!pattern.empty()) {
    const std::size_t open = pattern.find('[');
    const std::string_view fixed = pattern.substr(0, open);
    if (std::any_of(fixed.begin(), fixed.end(), [](char c) {
          return std::isalnum(static_cast<unsigned char>(c)) == 0 && std::strchr("-_.", c) == nullptr;
        }))
      return bad;
    std::vector<std::string> numbers = {""};
    std::size_t next = pattern.size();
    if (open != std::string_view::npos) {
      const std::size_t close = pattern.find(']', open);
      numbers = expandNumbers(pattern.substr(open + 1, close - open - 1));
      next = close + 1;
    }
    if (numbers.empty() || numbers.size() * hosts.size() > kMostHosts) return bad;
    std::vector<std::string> longer;
    for (const std::string& host : hosts)
      for (const std::string& number : numbers) longer.push_back(host + std::string(fixed) + number);
    hosts = std::move(longer);
    pattern.remove_prefix(next);
  }
  if (hosts[0].empty()) return bad;
  return hosts;
}

struct Line {
  int number = 0;
  std::string text;  // without comment and blanks at its ends; never empty
};

// Lines with content. `continued`: a line that ends in a backslash goes on in the next.
std::vector<Line> contentLines(std::string_view text, bool continued) {
  std::vector<Line> lines;
  int number = 0;
  bool goes_on = false;
  while (!text.empty()) {
    ++number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view raw = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    std::string line(raw);
    if (const std::size_t comment = continued ? line.find('#') : std::string::npos;
        comment != std::string::npos)
      line.resize(comment);
    line.erase(line.find_last_not_of(kBlanks) + 1);
    const bool more = continued && !line.empty() && line.back() == '\\';
    if (more) line.pop_back();
    if (goes_on) {
      lines.back().text += " " + line;
    } else if (!trimmed(line, kBlanks).empty() && line[0] != '#') {
      lines.push_back({number, line});
    }
    goes_on = more && (goes_on || !trimmed(line, kBlanks).empty());
  }
  return lines;
}

Error lineError(const std::string& name, int line, const std::string& text) {
  return Error{name + ":" + std::to_string(line) + ": " + text, Code::kInvalidArgument};
}

// One line of Slurm's file.
struct Switch {
  std::string name;
  std::optional<std::string> nodes;
  std::optional<std::string> switches;
};

Outcome<Switch> parseSwitch(const Line& line, const std::string& file) {
  Switch found;
  std::set<std::string> seen;
  std::string_view rest = trimmed(line.text, kBlanks);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find_first_of(" \t"), rest.size());
    const std::string_view word = rest.substr(0, end);
    rest = trimmed(rest.substr(end), kBlanks);
    const std::size_t equals = word.find('=');
    const std::string key = lowerCase(word.substr(0, equals));
    if (equals == std::string_view::npos || equals + 1 == word.size())
      return lineError(file, line.number, "'" + std::string(word) + "' is not KEY=VALUE");
    if (!seen.insert(key).second)
      return lineError(file, line.number, std::string(word.substr(0, equals)) + " stands there twice");
    const std::string value(word.substr(equals + 1));
    if (key == "switchname") {
      found.name = value;
    } else if (key == "nodes") {
      found.nodes = value;
    } else if (key == "switches") {
      found.switches = value;
    } else if (key != "linkspeed") {  // Slurm itself does not use it
      return lineError(file, line.number,
                       "unknown key '" + std::string(word.substr(0, equals)) +
                           "'; known are SwitchName, Nodes, Switches and LinkSpeed");
    }
  }
  if (found.name.empty()) return lineError(file, line.number, "SwitchName= is missing");
  if (found.nodes.has_value() == found.switches.has_value())
    return lineError(file, line.number, "switch " + found.name + " needs either Nodes= or Switches=");
  return found;
}

std::string addHost(HostGroups& groups, const std::string& host, const std::string& group) {
  const auto [at, is_new] = groups.group_of.try_emplace(host, group);
  return is_new ? "" : "host " + host + " is already in group " + at->second;
}

}  // namespace

int HostGroups::groups() const {
  std::set<std::string> names;
  for (const auto& [host, group] : group_of) names.insert(group);
  return static_cast<int>(names.size());
}

Outcome<int> HostGroups::groupsOf(const std::vector<std::string>& hosts) const {
  std::set<std::string> names;
  for (const std::string& host : hosts) {
    const auto at = group_of.find(host);
    if (at == group_of.end()) return Error{"host " + host + " is in no group", Code::kInvalidArgument};
    names.insert(at->second);
  }
  return static_cast<int>(names.size());
}

Outcome<std::vector<std::string>> expandHosts(std::string_view list) {
  const auto patterns = splitOutside(list, ',');
  if (!patterns)
    return Error{"the brackets of '" + std::string(list) + "' do not match", Code::kInvalidArgument};
  std::vector<std::string> all;
  for (const std::string_view pattern : *patterns) {
    const auto hosts = expandOne(pattern);
    if (!hosts.ok()) return hosts.failure();
    all.insert(all.end(), hosts->begin(), hosts->end());
    if (all.size() > kMostHosts)
      return Error{"more than " + std::to_string(kMostHosts) + " hosts", Code::kInvalidArgument};
  }
  return all;
}

Outcome<HostGroups> parseHostTable(std::string_view text, const std::string& name) {
  HostGroups groups;
  for (const Line& line : contentLines(text, false)) {
    const std::size_t tab = line.text.find('\t');
    const std::string host = line.text.substr(0, tab);
    const std::string group = tab == std::string::npos ? "" : line.text.substr(tab + 1);
    if (host.empty() || group.empty() || (host + group).find_first_of(" \t") != std::string::npos)
      return lineError(name, line.number, "not 'host TAB group'");
    if (const std::string wrong = addHost(groups, host, group); !wrong.empty())
      return lineError(name, line.number, wrong);
  }
  if (groups.group_of.empty()) return Error{name + ": no host in it", Code::kInvalidArgument};
  return groups;
}

Outcome<HostGroups> parseSlurmTopology(std::string_view text, const std::string& name) {
  HostGroups groups;
  std::set<std::string> names;
  std::vector<std::pair<int, std::string>> children;  // line, and a switch that must be there
  for (const Line& line : contentLines(text, true)) {
    const auto found = parseSwitch(line, name);
    if (!found.ok()) return found.failure();
    if (!names.insert(found->name).second)
      return lineError(name, line.number, "switch " + found->name + " stands there twice");
    const auto members = expandHosts(found->nodes ? *found->nodes : *found->switches);
    if (!members.ok()) return lineError(name, line.number, members.error());
    for (const std::string& member : *members) {
      if (found->switches) {
        children.emplace_back(line.number, member);
      } else if (const std::string wrong = addHost(groups, member, found->name); !wrong.empty()) {
        return lineError(name, line.number, wrong);
      }
    }
  }
  for (const auto& [line, child] : children)
    if (names.count(child) == 0) return lineError(name, line, "there is no switch " + child);
  if (groups.group_of.empty()) return Error{name + ": no switch with Nodes= in it", Code::kInvalidArgument};
  return groups;
}

Outcome<HostGroups> readHostGroups(const std::string& path) {
  const auto text = wholeFile(path);
  if (!text.ok()) return Error{path + ": " + text.error()};
  const auto lines = contentLines(*text, true);
  const bool slurm = !lines.empty() && lowerCase(trimmed(lines[0].text, kBlanks)).starts_with("switchname=");
  return slurm ? parseSlurmTopology(*text, path) : parseHostTable(*text, path);
}

std::optional<NodesAnswer> chooseNodes(const std::vector<NodeCandidate>& candidates, int count,
                                       int groups_available) {
  return NodeChooser(candidates, count, groups_available).choose();
}

}  // namespace railwise::gpu
