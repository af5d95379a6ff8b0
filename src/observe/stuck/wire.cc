// The facts of hosts as JSON (facts.h).
#include <nlohmann/json.hpp>
#include <type_traits>

#include "observe/stuck/facts.h"

namespace railwise::observe {
namespace {

using Json = nlohmann::json;

constexpr const char* kSchema = "railwise-stuck-facts";
constexpr int kSchemaVersion = 3;

// Far more than a host has. They limit what a hostile host can make this process hold.
constexpr std::size_t kMostLine = std::size_t{64} << 20;
constexpr std::size_t kMostProcesses = 4096;
constexpr int kMostConnections = 65536;
constexpr std::size_t kMostNotes = 64;
constexpr int kMostRank = 1 << 24;
constexpr int kDeepest = 8;  // levels of a document; nlohmann's parser would take any number

// The fields of the facts, in the order in which a reader checks them. `io` is a JsonMaker or an
// ObjectReader: what one writes is what the other reads. An int stands with its range, an enum with its last
// value, and a list with its most elements.
template <typename T, typename Facts>
concept Either = std::is_same_v<std::remove_const_t<T>, Facts>;

template <Either<RailFacts> Rail>
void fields(auto& io, Rail& rail) {
  io("device", rail.device);
  io("port", rail.port, 0, 255);
  io("state", rail.state, record::RailState::kFailed);
  io("state_ms", rail.state_ms);
  io("errors", rail.errors);
  io("error", rail.error);
  io("failovers", rail.failovers);
}

template <Either<record::Pair> Pair>
void fields(auto& io, Pair& pair) {
  io("rail", pair.rail, -1, record::kMostRails - 1);
  io("gid", pair.gid);
  io("peer_gid", pair.peer_gid);
  io("peer_device", pair.peer_device);
  io("peer_port", pair.peer_port, 0, 255);
}

template <Either<record::QueuePair> QueuePair>
void fields(auto& io, QueuePair& queue_pair) {
  io("number", queue_pair.number);
  io("peer_number", queue_pair.peer_number);
  io("pair", queue_pair.pair, -1, record::kPairs - 1);
  io("bytes", queue_pair.bytes);
}

template <Either<ConnectionFacts> Connection>
void fields(auto& io, Connection& connection) {
  io("slot", connection.slot);
  io("id", connection.id);
  io("pair_id", connection.pair_id);
  io("communicator", connection.communicator);
  io("side", connection.side, record::Side::kListener);
  io("kind", connection.kind, record::ConnectionKind::kOneSided);
  io("state", connection.state, record::ConnectionState::kClosed);
  io("waits_for", connection.waits_for, record::WaitsFor::kOwnNic);
  io("device", connection.device);
  io("peer", connection.peer);
  io("peer_device", connection.peer_device);
  io("reason", connection.reason);
  io("next", connection.numbers.next);
  io("posted", connection.numbers.posted);
  io("given", connection.posted);
  io("completed", connection.completed);
  io("oldest", connection.oldest);
  io("oldest_bytes", connection.oldest_bytes);
  io("oldest_ms", connection.oldest_ms);
  io("waits_ms", connection.waits_ms);
  io("looked_ms", connection.looked_ms);
  io("in_call", connection.in_call, 0, record::kCalls);
  io("state_ms", connection.state_ms);
  io("moved", connection.moved);
  io("new_epochs", connection.new_epochs);
  io("still", connection.still);
  io("failover", connection.failover, record::Failover::kOn);
  io("degraded", connection.degraded);
  io("gets_open", connection.one_sided.gets_open);
  io("signals", connection.one_sided.signals);
  io("signals_done", connection.one_sided.signals_done);
  io("last_signal_ms", connection.last_signal_ms);
  io("peer_rank", connection.one_sided.peer_rank, -1, kMostRank);
  io("pairs", connection.pairs, record::kPairs);
  io("queue_pairs", connection.queue_pairs, record::kQueuePairs);
}

template <Either<ProcessFacts> Process>
void fields(auto& io, Process& process) {
  io("host", process.host);
  io("boot_id", process.boot_id);
  io("pid", process.pid);
  io("process_start", process.process_start);
  io("alive", process.alive);
  io("ended", process.ended);
  io("spy", process.spy);
  io("kernel_state", process.kernel_state);
  io("gone_ms", process.gone_ms);
  io("between_ms", process.between_ms);
  io("rank", process.rank, -1, kMostRank);
  io("ranks", process.ranks, -1, kMostRank);
  io("program", process.program);
  io("command", process.command);
  io("parent", process.parent);
  io("trouble", process.trouble);
  io("unrecorded", process.unrecorded);
  io("slow_setup", process.slow_setup);
  io("rails", process.rails, record::kMostRails);
  io("connections", process.connections, kMostConnections);
}

struct JsonMaker {
  Json json = Json::object();

  template <typename Value>
  void operator()(const char* key, const Value& value, auto... /*limits*/) {
    if constexpr (std::is_enum_v<Value>) json[key] = static_cast<int>(value);
    else if constexpr (std::is_same_v<Value, char>) json[key] = std::string(value != 0 ? 1 : 0, value);
    else json[key] = value;
  }
  template <typename Facts>
  void operator()(const char* key, const std::vector<Facts>& list, int /*most*/) {
    json[key] = Json::array();
    for (const Facts& facts : list) json[key].push_back(jsonOf(facts));
  }
  template <typename Facts>
  static Json jsonOf(const Facts& facts) {
    JsonMaker maker;
    fields(maker, facts);
    return std::move(maker.json);
  }
};

// The fields of one JSON object. The first field that is missing or wrong makes error().
class ObjectReader {
 public:
  ObjectReader(const Json& object, std::string& error) : object_(object), error_(error) {}

  std::string text(const char* key) {
    std::string value;
    (*this)(key, value);
    return value;
  }
  uint64_t number(const char* key) {
    uint64_t value = 0;
    (*this)(key, value);
    return value;
  }
  template <typename Element>
  std::vector<Element> list(const char* key, std::size_t most,
                            Element (*readElement)(const Json&, std::string&)) {
    std::vector<Element> elements;
    const Json* const value = find(key, &Json::is_array, "a list");
    if (value == nullptr) return elements;
    if (value->size() > most) return fail(key, "a list of at most " + std::to_string(most)), elements;
    for (const Json& element : *value) {
      elements.push_back(readElement(element, error_));
      if (!error_.empty()) break;
    }
    return elements;
  }
  template <typename Facts>
  static Facts read(const Json& json, std::string& error) {
    ObjectReader object(json, error);
    Facts facts;
    fields(object, facts);
    return facts;
  }

  // The fields of the facts. A value that is missing or wrong stays as it is.
  void operator()(const char* key, std::string& value) {
    if (const Json* const its = find(key, &Json::is_string, "a text"))
      value = plainText(its->get_ref<const std::string&>());
  }
  void operator()(const char* key, uint64_t& value) {
    if (const Json* const its = find(key, &Json::is_number_unsigned, "a number from 0"))
      value = its->get<uint64_t>();
  }
  void operator()(const char* key, uint32_t& value) {
    const uint64_t all = number(key);
    if (all > UINT32_MAX) fail(key, "a number of 32 bits");
    else value = static_cast<uint32_t>(all);
  }
  void operator()(const char* key, bool& value) {
    if (const Json* const its = find(key, &Json::is_boolean, "true or false")) value = its->get<bool>();
  }
  void operator()(const char* key, int& value, int least, int most) {
    const std::string range = "a number from " + std::to_string(least) + " to " + std::to_string(most);
    const Json* const its = find(key, &Json::is_number_integer, range);
    if (its == nullptr) return;
    const bool large = its->is_number_unsigned() && its->get<uint64_t>() > INT32_MAX;
    const auto number = large ? INT64_MAX : its->get<int64_t>();
    if (number < least || number > most) fail(key, range);
    else value = static_cast<int>(number);
  }
  template <typename Enum>
  void operator()(const char* key, Enum& value, Enum last) {
    int number = 0;
    (*this)(key, number, 0, static_cast<int>(last));
    value = static_cast<Enum>(number);
  }
  // A letter, or 0 where the text is empty or unknown.
  void operator()(const char* key, char& value) {
    const std::string all = text(key);
    value = all.size() == 1 && all[0] >= 'A' && all[0] <= 'z' ? all[0] : '\0';
  }
  template <typename Facts>
  void operator()(const char* key, std::vector<Facts>& value, int most) {
    value = list(key, static_cast<std::size_t>(most), read<Facts>);
  }
  void fail(const char* key, const std::string& what) {
    if (error_.empty()) error_ = std::string("'") + key + "' is not " + what;
  }

 private:
  // The value, if it is of the type that is meant.
  const Json* find(const char* key, bool (Json::*isMeant)() const noexcept, const std::string& what) {
    const auto found = object_.is_object() ? object_.find(key) : object_.end();
    if (!error_.empty()) return nullptr;
    if (!object_.is_object()) error_ = std::string("no object where '") + key + "' belongs";
    else if (found == object_.end()) error_ = std::string("'") + key + "' is missing";
    else if (!((*found).*isMeant)()) fail(key, what);
    return error_.empty() ? &*found : nullptr;
  }

  const Json& object_;
  std::string& error_;
};

std::string readText(const Json& json, std::string& error) {
  if (json.is_string()) return plainText(json.get_ref<const std::string&>());
  error = "a note is not a text";
  return "";
}

ProcessFacts readProcess(const Json& json, std::string& error) {
  auto process = ObjectReader::read<ProcessFacts>(json, error);
  for (ConnectionFacts& connection : process.connections) {
    for (record::Pair& pair : connection.pairs)
      if (pair.rail >= static_cast<int>(process.rails.size())) pair.rail = -1;
    for (record::QueuePair& queue_pair : connection.queue_pairs)
      if (queue_pair.pair >= static_cast<int>(connection.pairs.size())) queue_pair.pair = -1;
  }
  return process;
}

// `processes`: how many lines of processes follow.
HostFacts readHost(const Json& json, uint64_t& processes, std::string& error) {
  ObjectReader object(json, error);
  HostFacts host;
  if (object.text("schema") != kSchema) object.fail("schema", std::string("\"") + kSchema + "\"");
  if (object.number("schema_version") != kSchemaVersion)
    object.fail("schema_version", std::to_string(kSchemaVersion) +
                                      ", as this railwise speaks: use the version of this host there");
  host.asked = object.text("asked");
  host.name = object.text("name");
  host.error = object.text("error");
  host.notes = object.list("notes", kMostNotes, readText);
  processes = object.number("processes");
  if (processes > kMostProcesses)
    object.fail("processes", "a number of at most " + std::to_string(kMostProcesses));
  if (processes > 0 && !host.error.empty()) object.fail("processes", "0, and the host has not answered");
  return host;
}

// Is the line nested deeper than any line of ours? nlohmann's destructor recurses.
bool tooDeep(std::string_view line) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted) {
      if (c == '\\') ++i;
      else if (c == '"') quoted = false;
      continue;
    }
    if (c == '"') quoted = true;
    if ((c == '{' || c == '[') && ++depth > kDeepest) return true;
    if (c == '}' || c == ']') --depth;
  }
  return false;
}

// The answers so far.
struct Answers {
  std::vector<HostFacts> hosts;
  uint64_t announced = 0;  // processes of the last host

  // Adds what a line says. Returns what is wrong with it, or "".
  std::string take(std::string_view line) {
    if (line.size() > kMostLine) return "the line is too long";
    if (tooDeep(line)) return "no JSON of railwise stuck --gather";
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_discarded()) return "no JSON, or cut";
    std::string error;
    if (json.contains("schema")) {
      if (const std::string cut = missing(); !cut.empty()) return cut;
      HostFacts host = readHost(json, announced, error);
      if (error.empty()) hosts.push_back(std::move(host));
      return error;
    }
    if (hosts.empty()) return "no line of a host stands before it";
    if (hosts.back().processes.size() >= announced) return "one more process than the line of the host says";
    ProcessFacts process = readProcess(json, error);
    if (error.empty()) hosts.back().processes.push_back(std::move(process));
    return error;
  }
  // "" if all processes of the last host are there.
  std::string missing() const {
    if (hosts.empty() || hosts.back().processes.size() == announced) return "";
    return "cut: " + std::to_string(hosts.back().processes.size()) + " of " + std::to_string(announced) +
           " processes of the host before it are there";
  }
};

}  // namespace

std::string jsonLines(const HostFacts& host) {
  const auto line = [](const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  };
  std::string text = line({{"schema", kSchema},
                           {"schema_version", kSchemaVersion},
                           {"asked", host.asked},
                           {"name", host.name},
                           {"error", host.error},
                           {"notes", host.notes},
                           {"processes", host.processes.size()}});
  for (const ProcessFacts& process : host.processes) text += line(JsonMaker::jsonOf(process));
  return text;
}

Outcome<std::vector<HostFacts>> parseJsonLines(std::string_view text, const std::string& source) {
  Answers answers;
  std::size_t number = 0;
  const auto error = [&](const std::string& wrong) {
    return Error{source + ":" + std::to_string(number) + ": " + wrong};
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.empty() || line[0] != '{') continue;
    if (const std::string wrong = answers.take(line); !wrong.empty()) return error(wrong);
  }
  if (answers.hosts.empty())
    return Error{source + ": no line of railwise stuck --gather in it: is railwise of this version there?"};
  if (const std::string cut = answers.missing(); !cut.empty()) return error(cut);
  return std::move(answers.hosts);
}

}  // namespace railwise::observe
