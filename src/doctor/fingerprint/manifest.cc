#include "doctor/fingerprint/manifest.h"

#include <fnmatch.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/files.h"
#include "base/text/json.h"
#include "base/text/printable.h"
#include "base/text/words.h"
#include "doctor/facts/rdma_ports.h"
#include "doctor/facts/system.h"
#include "doctor/fingerprint/fingerprint.h"

namespace railwise::doctor::fingerprint {
namespace {

using Json = nlohmann::ordered_json;  // keeps the order of the text, by which a key's line is found

constexpr const char* kManifestSchema = "railwise-manifest";
constexpr std::size_t kMostManifestBytes = 2UL << 20;  // a manifest has about 1 KiB
constexpr const char* kStates[] = {"", "nop", "down", "init", "armed", "active"};

bool isSetting(const std::string& name) { return name.starts_with("NCCL_") || name.starts_with("RAILWISE_"); }

void writePorts(JsonWriter& json, const System& system) {
  std::map<std::tuple<std::string, int, std::string>, int> groups;
  for (const RdmaPort& port : rdmaPorts(system))
    ++groups[{printableAscii(port.layer), port.rate_mbps / 1000, kStates[static_cast<int>(port.state) + 1]}];
  json.key("ports").inlineObjects(groups, [&](const auto& group) {
    const auto& [link, gbps, state] = group.first;
    json.key("link").known(link).key("gbps").known(gbps > 0 ? gbps : -1);
    json.key("state").known(state).key("count").value(group.second);
  });
}

std::string documentOf(const Fingerprint& node, const System& system, bool with_environment) {
  JsonWriter json;
  json.beginObject().key("schema").value(kManifestSchema);
  writeFields(json, node);
  writePorts(json, system);
  json.key("settings").beginObject();
  for (const auto& [name, variable] : system.variables()) {
    if (isSetting(name) && (with_environment || variable.where != "the environment"))
      json.key(printableAscii(name)).value(printableAscii(variable.value));
  }
  return json.endObject().endObject().text();
}

// A document that has every key.
Json everyKey() {
  sysfs::MemoryTree tree;
  Fingerprint node = fingerprintOf(tree, {});
  node.gpus = node.gpu_firmware = {{"", 1}};
  node.nics = {NicGroup{.count = 1}};
  Json all = Json::parse(documentOf(node, System(tree), false));
  all["ports"] = {{{"link", nullptr}, {"gbps", 0}, {"state", nullptr}, {"count", 1}}};
  return all;
}

// How narrow a text, a list or a number of a manifest is: 0 fits everything.
std::size_t narrowness(const Json& wanted) {
  constexpr std::size_t kExact = 256;  // above the letters of any pattern
  if (wanted.is_null()) return 0;
  if (wanted.is_array()) return 1;
  const std::string text = wanted.is_string() ? std::string(wanted) : "";
  return text.find_first_of("*?[") == std::string::npos ? kExact : std::min(text.size(), kExact - 1);
}

// What is null on the node is not known, and fits only null.
bool fits(const Json& wanted, const Json& its) {
  if (wanted.is_array())
    return std::ranges::any_of(wanted, [&](const Json& each) { return fits(each, its); });
  if (!wanted.is_string()) return wanted.is_null() || wanted == its;
  const std::string pattern = wanted, text = its.is_string() ? std::string(its) : "";
  return !text.empty() && (pattern == text || fnmatch(pattern.c_str(), text.c_str(), 0) == 0);
}

// "8 x InfiniBand, 400, active"
std::string manifestText(const Json& value) {
  if (value.is_null()) return "not known";
  if (value == "") return "not set";
  if (value.is_array()) return joined(value, " or ", [](const Json& each) { return manifestText(each); });
  if (value.is_string()) return value;
  if (!value.is_object()) return value.dump();
  std::vector<std::string> words;
  for (const auto& [key, each] : value.items())
    if (key != "count" && !each.is_null())
      words.push_back(manifestText(each) + (key == "gbps" ? " Gb/s" : ""));
  return (value.contains("count") ? value["count"].dump() + " x " : "") +
         (words.empty() ? "not known" : joined(words));
}

class Comparer {
 public:
  // `environment`: the node tells of a job's settings.
  Comparer(const std::string& text, std::string name, bool environment)
      : text_(text), name_(std::move(name)), environment_(environment) {}

  Outcome<std::vector<ManifestDifference>> compare(const Json& node) {
    Json wanted;
    try {
      wanted = Json::parse(text_);
    } catch (const Json::parse_error& error) {
      return Error{name_ + ":" + std::to_string(lineAt(error.byte)) + ": no JSON from here on"};
    } catch (const Json::exception&) {
      return Error{name_ + ": a number in it is too large"};
    }
    if (!wanted.is_object()) return Error{name_ + ":1: not a JSON object"};
    object(wanted, everyKey(), node, "");
    if (!error_.empty()) return Error{error_};
    return std::move(differences_);
  }

 private:
  int lineAt(std::size_t byte) const {
    const auto end = text_.begin() + static_cast<std::ptrdiff_t>(std::min(byte, text_.size()));
    return static_cast<int>(std::count(text_.begin(), end, '\n')) + 1;
  }

  // Of the next place of the key: keys are asked for in the order of the text.
  int nextLine(const std::string& key) {
    const std::string quoted = "\"" + key + "\"";
    for (auto at = text_.find(quoted, from_); at != std::string::npos; at = text_.find(quoted, at + 1)) {
      const auto behind = text_.find_first_not_of(" \t\r\n", at + quoted.size());
      if (behind == std::string::npos || text_[behind] != ':') continue;
      from_ = behind;
      return lineAt(at);
    }
    return lineAt(from_);
  }

  void fail(int line, const std::string& key, const std::string& what) {
    if (error_.empty()) error_ = name_ + ":" + std::to_string(line) + ": " + printableAscii(key) + " " + what;
  }

  bool knows(const Json& schema, const std::string& key, const std::string& place, int line) {
    if (schema.contains(key)) return true;
    std::vector<std::string> names;
    for (const auto& each : schema.items()) names.push_back(each.key());
    const auto near = closest(key, names);
    fail(line, place,
         "is no key of a manifest" + (near ? "; did you mean " + *near + "?" : " (" + joined(names) + ")"));
    return false;
  }

  // A text, a list of texts, a number.
  void checkScalar(const Json& value, bool number, int line, const std::string& place) {
    if (value.is_null()) return;
    const auto is_text = [](const Json& each) { return each.is_string(); };
    if (number && !value.is_number_integer()) fail(line, place, "is no whole number");
    if (!number && !is_text(value) &&
        !(value.is_array() && !value.empty() && std::ranges::all_of(value, is_text)))
      fail(line, place, "is neither a text nor a list of texts");
  }

  void object(const Json& wanted, const Json& schema, const Json& node, const std::string& above) {
    const bool setting = above == "settings";
    for (const auto& [key, value] : wanted.items()) {
      const int line = nextLine(key);
      const std::string place = above.empty() ? key : above + "." + key;
      if (setting && !isSetting(key)) return fail(line, place, "is no setting of NCCL or Railwise");
      if (!setting && !knows(schema, key, place, line)) return;
      if (!setting && value.is_null()) continue;
      if (place == "railwise") return fail(line, place, "is not compared: Railwise is updated by itself");
      const Json kind = setting ? Json() : schema[key];
      Json its = node.is_object() && node.contains(key) ? node[key] : Json();
      if (setting && its.is_null() && environment_) its = "";
      if (kind.is_object()) {
        if (!value.is_object()) return fail(line, place, "is no object");
        object(value, kind, its, place);
      } else if (kind.is_array()) {
        if (!value.is_array()) return fail(line, place, "is no list");
        groups(value, kind[0], its, place, line);
      } else {
        checkScalar(value, kind.is_number(), line, place);
        const bool fit = value.is_null() ? its.is_null() || its == "" : fits(value, its);
        if (error_.empty() && !fit)
          differences_.push_back({place, line, value.is_null() ? "not set" : manifestText(value),
                                  manifestText(its), false, !its.is_null()});
      }
      if (!error_.empty()) return;
    }
  }

  struct Group {
    const Json* wanted;
    int line;
    std::size_t narrow = 0;
    int64_t count = 0;  // of what the node has of it
  };

  // Each group of the manifest, by its count. A group of the node is of the narrowest one that it fits; one
  // that fits none is too much.
  void groups(const Json& wanted, const Json& schema, const Json& node, const std::string& place, int line) {
    std::vector<Group> all;
    for (const Json& group : wanted) {
      if (!group.is_object()) return fail(line, place, "has something that is no object");
      std::size_t narrow = 0;
      for (const auto& [key, value] : group.items()) {
        const int at = nextLine(key);
        if (!knows(schema, key, place + "." + key, at)) return;
        checkScalar(value, schema[key].is_number(), at, place + "." + key);
        if (key != "count") narrow += narrowness(value);
        line = at;
      }
      if (!group.contains("count") || group["count"].is_null())
        fail(line, place, "has a group without count");
      if (!error_.empty()) return;
      all.push_back({&group, line, narrow});
    }
    std::ranges::stable_sort(all, std::greater<>(), &Group::narrow);
    std::vector<std::string> others;
    for (const Json& its : node) {
      const auto narrowest = [&](bool or_not_known) {
        return std::ranges::find_if(all, [&](const Group& group) {
          const auto items = group.wanted->items();
          return std::ranges::all_of(items, [&](const auto& each) {
            const Json& found = its[each.key()];
            return each.key() == "count" || fits(each.value(), found) || (or_not_known && found.is_null());
          });
        });
      };
      auto of = narrowest(false);
      if (of == all.end() && (of = narrowest(true)) != all.end())
        differences_.push_back({place, of->line, manifestText(*of->wanted), manifestText(its), true, false});
      if (of == all.end()) others.push_back(manifestText(its));
      else of->count += its["count"].template get<int64_t>();
    }
    const std::size_t before = differences_.size();
    for (const Group& group : all) {
      if (group.count == (*group.wanted)["count"].template get<int64_t>()) continue;
      differences_.push_back(
          {place, group.line, manifestText(*group.wanted),
           std::to_string(group.count) + (others.empty() ? "" : ", and " + joined(others, "; ")), true});
    }
    if (differences_.size() > before) return;
    for (const std::string& other : others) differences_.push_back({place, line, "no others", other, true});
  }

  const std::string& text_;
  const std::string name_;
  const bool environment_;
  std::string error_;
  std::size_t from_ = 0;
  std::vector<ManifestDifference> differences_;
};

Fingerprint manifestNode(const sysfs::FileTree& tree, const gpu::GpuTopology& gpus) {
  Fingerprint node = fingerprintOf(tree, gpus);
  node.railwise.clear();  // Railwise is updated by itself
  return node;
}

// What is not there is "": its folder is missing, and the tree has the folder above.
void markAbsent(const sysfs::FileTree& tree, Json& node) {
  const auto mark = [&](Json& value, const std::string& above, const std::string& name) {
    if (value.is_null() && tree.exists(above) && !tree.exists(above + "/" + name)) value = "";
  };
  mark(node["cuda"], "/usr/local", "cuda");
  mark(node["rocm"], "/opt", "rocm");
  for (const auto& each : node["modules"].items()) mark(each.value(), "/sys/module", each.key());
}

}  // namespace

std::string manifestOf(const sysfs::FileTree& tree, const gpu::GpuTopology& gpus) {
  return documentOf(manifestNode(tree, gpus), System(tree), false);
}

Outcome<std::string> readManifest(const std::string& file) {
  Outcome<std::string> text = wholeFile(file, kMostManifestBytes + 1);
  if (!text.ok()) return Error{file + ": " + text.error()};
  if (text->size() > kMostManifestBytes) return Error{file + ": more than 2 MiB, which is no manifest"};
  const auto read = compareWithManifest(*text, file, sysfs::MemoryTree(), {});
  return read.ok() ? text : read.failure();
}

Outcome<std::vector<ManifestDifference>> compareWithManifest(const std::string& text, const std::string& name,
                                                             const sysfs::FileTree& tree,
                                                             const gpu::GpuTopology& gpus) {
  const System system(tree);
  Json node = Json::parse(documentOf(manifestNode(tree, gpus), system, true));
  markAbsent(tree, node);
  return Comparer(text, name, system.environmentKnown()).compare(node);
}

}  // namespace railwise::doctor::fingerprint
