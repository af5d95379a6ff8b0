#include "cli/fingerprint/parse.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text/printable.h"

namespace railwise::cli {
namespace {

using Json = nlohmann::json;

constexpr const char* kWriteAgain = "write it with: railwise fingerprint --json > FILE";
constexpr std::size_t kMostGroups = 1024;  // of GPUs or NICs that differ in one node
constexpr int kMostCounted = 1 << 20;      // of GPUs or NICs of one kind

// The end of the JSON object or array that begins at `begin`: behind the bracket that closes the first one.
// npos: it has no end.
std::size_t documentEnd(std::string_view text, std::size_t begin) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
      continue;
    }
    quoted = c == '"';
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth == 0) return i + 1;
  }
  return std::string_view::npos;
}

// The fields of one JSON object. The first field of a wrong type makes error().
class ObjectReader {
 public:
  ObjectReader(const Json& object, std::string path) : object_(object), path_(std::move(path)) {}

  const std::string& error() const { return error_; }

  // A text, or "" for null.
  std::string text(const char* key) {
    const Json* value = find(key);
    if (value == nullptr) return "";
    if (!value->is_string()) return fail(key, "a text"), "";
    return printableAscii(value->get_ref<const std::string&>());
  }

  int count(const char* key) {
    const Json* value = find(key);
    if (value == nullptr || !value->is_number_integer()) return fail(key, "a number"), 0;
    const auto number = value->get<int64_t>();
    if (number < 1 || number > kMostCounted) return fail(key, "a number of devices"), 0;
    return static_cast<int>(number);
  }

  // Calls `take` with a reader of each object in an array.
  template <typename Take>
  void each(const char* key, Take take) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_array()) return fail(key, "an array");
    if (value->size() > kMostGroups) return fail(key, "an array of so few elements as a node has");
    for (const Json& element : *value) {
      if (!element.is_object()) return fail(key, "an array of objects");
      ObjectReader inner(element, path_ + key + "[].");
      take(inner);
      adopt(inner);
    }
  }

  template <typename Take>
  void inside(const char* key, Take take) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_object()) return fail(key, "an object");
    ObjectReader inner(*value, path_ + key + ".");
    take(inner, *value);
    adopt(inner);
  }

 private:
  // Null: the field is missing, or it is null.
  const Json* find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  void fail(const char* key, const char* wanted) {
    if (error_.empty()) error_ = "'" + path_ + printableAscii(key) + "' is not " + wanted;
  }
  void adopt(const ObjectReader& inner) {
    if (error_.empty()) error_ = inner.error_;
  }

  const Json& object_;
  const std::string path_;  // for messages: "gpu."
  std::string error_;
};

Outcome<Fingerprint> nodeOf(const Json& object) {
  const std::string again = std::string("; ") + kWriteAgain;
  if (!object.is_object()) return Error{"not a JSON object" + again};
  ObjectReader reader(object, "");
  if (reader.text("schema") != "railwise-fingerprint") return Error{"not a fingerprint of a node" + again};
  if (const int version = reader.count("schema_version"); version > 1)
    return Error{"written by a newer Railwise (schema_version " + std::to_string(version) +
                 "); compare with that one, or write it with this one"};
  Fingerprint node;
  node.host = reader.text("host");
  node.railwise = reader.text("railwise");
  node.kernel = reader.text("kernel");
  reader.inside("gpu", [&](ObjectReader& gpu, const Json&) {
    node.gpu_vendor = gpu.text("vendor");
    gpu.each("models", [&](ObjectReader& each) {
      node.gpus.push_back({each.text("model"), each.count("count")});
    });
    node.gpu_driver = gpu.text("driver");
    gpu.each("firmware", [&](ObjectReader& each) {
      node.gpu_firmware.push_back({each.text("version"), each.count("count")});
    });
  });
  node.cuda = reader.text("cuda");
  node.rocm = reader.text("rocm");
  reader.inside("modules", [&](ObjectReader& modules, const Json& all) {
    for (const auto& each : all.items())
      node.modules[printableAscii(each.key())] = modules.text(each.key().c_str());
  });
  reader.each("nics", [&](ObjectReader& nic) {
    node.nics.push_back({nic.text("type"), nic.text("board"), nic.text("firmware"), nic.count("count")});
  });
  node.rdma_core = reader.text("rdma_core");
  if (!reader.error().empty()) return Error{reader.error() + again};
  return node;
}

// What is in the file where a document should begin.
std::string beginOf(std::string_view text) {
  constexpr std::size_t kShown = 20;
  return "'" + printableAscii(text.substr(0, std::min(text.find('\n'), kShown))) + "'";
}

}  // namespace

Outcome<std::vector<ParsedFingerprint>> parseFingerprints(std::string_view text, const std::string& name) {
  std::vector<ParsedFingerprint> nodes;
  int line = 1;
  std::size_t counted = 0;
  for (std::size_t at = 0;;) {
    at = text.find_first_not_of(" \t\r\n", at);
    if (at == std::string_view::npos) break;
    line += static_cast<int>(std::count(text.begin() + counted, text.begin() + at, '\n'));
    counted = at;
    const auto problem = [&](const std::string& what) {
      return Error{name + ":" + std::to_string(line) + ": " + what};
    };
    if (text[at] != '{' && text[at] != '[')
      return problem(beginOf(text.substr(at)) + " is not JSON; " + kWriteAgain);
    const std::size_t end = documentEnd(text, at);
    if (end == std::string_view::npos)
      return problem(std::string("the JSON that begins here has no end: was it cut off? ") + kWriteAgain);
    const Json document = Json::parse(text.begin() + at, text.begin() + end, nullptr, false);
    if (document.is_discarded()) return problem(std::string("not JSON; ") + kWriteAgain);
    const auto add = [&](const Json& object) {
      Outcome<Fingerprint> node = nodeOf(object);
      if (node.ok()) nodes.push_back({std::move(*node), line});
      return node.ok() ? std::string() : node.error();
    };
    if (document.is_array()) {
      for (const Json& element : document)
        if (const std::string what = add(element); !what.empty()) return problem(what);
    } else if (const std::string what = add(document); !what.empty()) {
      return problem(what);
    }
    at = end;
  }
  if (nodes.empty()) return Error{name + ": no fingerprint in it; " + kWriteAgain};
  return nodes;
}

}  // namespace railwise::cli
