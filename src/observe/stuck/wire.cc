#include "observe/stuck/wire.h"

#include <nlohmann/json.hpp>

#include "observe/stuck/words.h"

namespace railwise::observe {
namespace {

using Json = nlohmann::json;

constexpr const char* kSchema = "railwise-stuck-facts";
constexpr int kSchemaVersion = 1;

// Far more than a host has. They limit what a hostile host can make this process hold.
constexpr std::size_t kMostLine = std::size_t{64} << 20;
constexpr std::size_t kMostProcesses = 4096;
constexpr std::size_t kMostConnections = 65536;
constexpr std::size_t kMostNotes = 64;
constexpr int kMostRank = 1 << 24;
constexpr int kDeepest = 8;  // levels of a document; nlohmann's parser would take any number

Json jsonOf(const RailFacts& rail) {
  return {{"device", rail.device},      {"port", rail.port},     {"state", static_cast<int>(rail.state)},
          {"state_ms", rail.state_ms},  {"errors", rail.errors}, {"error", rail.error},
          {"failovers", rail.failovers}};
}

Json jsonOf(const PairFacts& pair) {
  return {{"rail", pair.rail},
          {"gid", pair.gid},
          {"peer_gid", pair.peer_gid},
          {"peer_device", pair.peer_device},
          {"peer_port", pair.peer_port}};
}

Json jsonOf(const QueuePairFacts& queue_pair) {
  return {{"number", queue_pair.number},
          {"peer_number", queue_pair.peer_number},
          {"pair", queue_pair.pair},
          {"bytes", queue_pair.bytes}};
}

Json jsonOf(const ConnectionFacts& connection);

template <typename Element>
Json jsonOfAll(const std::vector<Element>& elements) {
  Json list = Json::array();
  for (const Element& element : elements) list.push_back(jsonOf(element));
  return list;
}

Json jsonOf(const ConnectionFacts& connection) {
  return {{"slot", connection.slot},
          {"id", connection.id},
          {"pair_id", connection.pair_id},
          {"communicator", connection.communicator},
          {"side", static_cast<int>(connection.side)},
          {"state", static_cast<int>(connection.state)},
          {"waits_for", static_cast<int>(connection.waits_for)},
          {"device", connection.device},
          {"peer", connection.peer},
          {"peer_device", connection.peer_device},
          {"reason", connection.reason},
          {"next", connection.next},
          {"posted", connection.posted},
          {"given", connection.given},
          {"completed", connection.completed},
          {"oldest", connection.oldest},
          {"oldest_bytes", connection.oldest_bytes},
          {"oldest_ms", connection.oldest_ms},
          {"waits_ms", connection.waits_ms},
          {"looked_ms", connection.looked_ms},
          {"state_ms", connection.state_ms},
          {"moved", connection.moved},
          {"new_epochs", connection.new_epochs},
          {"still", connection.still},
          {"degraded", connection.degraded},
          {"pairs", jsonOfAll(connection.pairs)},
          {"queue_pairs", jsonOfAll(connection.queue_pairs)}};
}

Json jsonOf(const ProcessFacts& process) {
  return {{"host", process.host},
          {"boot_id", process.boot_id},
          {"pid", process.pid},
          {"process_start", process.process_start},
          {"alive", process.alive},
          {"ended", process.ended},
          {"spy", process.spy},
          {"kernel_state", std::string(process.kernel_state != 0 ? 1 : 0, process.kernel_state)},
          {"gone_ms", process.gone_ms},
          {"between_ms", process.between_ms},
          {"rank", process.rank},
          {"ranks", process.ranks},
          {"program", process.program},
          {"unrecorded", process.unrecorded},
          {"slow_setup", process.slow_setup},
          {"rails", jsonOfAll(process.rails)},
          {"connections", jsonOfAll(process.connections)}};
}

// The fields of one JSON object. The first field that is missing or wrong makes error().
class ObjectReader {
 public:
  ObjectReader(const Json& object, std::string& error) : object_(object), error_(error) {}

  std::string text(const char* key) {
    const Json* const value = find(key);
    if (value == nullptr) return "";
    if (!value->is_string()) return fail(key, "a text"), "";
    return plainText(value->get_ref<const std::string&>());
  }
  uint64_t number(const char* key) {
    const Json* const value = find(key);
    if (value == nullptr) return 0;
    if (!value->is_number_unsigned()) return fail(key, "a number from 0"), 0;
    return value->get<uint64_t>();
  }
  uint32_t smallNumber(const char* key) {
    const uint64_t all = number(key);
    if (all > UINT32_MAX) return fail(key, "a number of 32 bits"), 0;
    return static_cast<uint32_t>(all);
  }
  int between(const char* key, int least, int most) {
    const Json* const value = find(key);
    if (value == nullptr) return least;
    if (value->is_number_unsigned()) {
      const auto all = value->get<uint64_t>();
      if (all <= static_cast<uint64_t>(most) && static_cast<int>(all) >= least) return static_cast<int>(all);
    } else if (value->is_number_integer() && value->get<int64_t>() == least) {
      return least;  // -1: not known
    }
    return fail(key, "a number from " + std::to_string(least) + " to " + std::to_string(most)), least;
  }
  bool truth(const char* key) {
    const Json* const value = find(key);
    if (value == nullptr) return false;
    if (!value->is_boolean()) return fail(key, "true or false"), false;
    return value->get<bool>();
  }
  template <typename Element>
  std::vector<Element> list(const char* key, std::size_t most, Element (*read)(const Json&, std::string&)) {
    std::vector<Element> elements;
    const Json* const value = find(key);
    if (value == nullptr) return elements;
    if (!value->is_array()) return fail(key, "a list"), elements;
    if (value->size() > most) return fail(key, "a list of at most " + std::to_string(most)), elements;
    for (const Json& element : *value) {
      elements.push_back(read(element, error_));
      if (!error_.empty()) break;
    }
    return elements;
  }
  void fail(const char* key, const std::string& what) {
    if (error_.empty()) error_ = std::string("'") + key + "' is not " + what;
  }

 private:
  const Json* find(const char* key) {
    if (!object_.is_object()) {
      if (error_.empty()) error_ = std::string("no object where '") + key + "' belongs";
      return nullptr;
    }
    const auto found = object_.find(key);
    if (found != object_.end()) return &*found;
    if (error_.empty()) error_ = std::string("'") + key + "' is missing";
    return nullptr;
  }

  const Json& object_;
  std::string& error_;
};

std::string readText(const Json& json, std::string& error) {
  if (json.is_string()) return plainText(json.get_ref<const std::string&>());
  error = "a note is not a text";
  return "";
}

RailFacts readRail(const Json& json, std::string& error) {
  ObjectReader object(json, error);
  RailFacts rail;
  rail.device = object.text("device");
  rail.port = object.between("port", 0, 255);
  rail.state = static_cast<record::RailState>(object.between("state", 0, 3));
  rail.state_ms = object.number("state_ms");
  rail.errors = object.number("errors");
  rail.error = object.text("error");
  rail.failovers = object.number("failovers");
  return rail;
}

PairFacts readPair(const Json& json, std::string& error) {
  ObjectReader object(json, error);
  PairFacts pair;
  pair.rail = object.between("rail", -1, record::kMostRails - 1);
  pair.gid = object.text("gid");
  pair.peer_gid = object.text("peer_gid");
  pair.peer_device = object.text("peer_device");
  pair.peer_port = object.between("peer_port", 0, 255);
  return pair;
}

QueuePairFacts readQueuePair(const Json& json, std::string& error) {
  ObjectReader object(json, error);
  QueuePairFacts queue_pair;
  queue_pair.number = object.smallNumber("number");
  queue_pair.peer_number = object.smallNumber("peer_number");
  queue_pair.pair = object.between("pair", -1, record::kPairs - 1);
  queue_pair.bytes = object.number("bytes");
  return queue_pair;
}

ConnectionFacts readConnection(const Json& json, std::string& error) {
  ObjectReader object(json, error);
  ConnectionFacts connection;
  connection.slot = object.smallNumber("slot");
  connection.id = object.number("id");
  connection.pair_id = object.number("pair_id");
  connection.communicator = object.number("communicator");
  connection.side = static_cast<record::Side>(object.between("side", 0, 2));
  connection.state = static_cast<record::ConnectionState>(object.between("state", 0, 7));
  connection.waits_for = static_cast<record::WaitsFor>(object.between("waits_for", 0, 5));
  connection.device = object.text("device");
  connection.peer = object.text("peer");
  connection.peer_device = object.text("peer_device");
  connection.reason = object.text("reason");
  connection.next = object.number("next");
  connection.posted = object.number("posted");
  connection.given = object.number("given");
  connection.completed = object.number("completed");
  connection.oldest = object.number("oldest");
  connection.oldest_bytes = object.number("oldest_bytes");
  connection.oldest_ms = object.number("oldest_ms");
  connection.waits_ms = object.number("waits_ms");
  connection.looked_ms = object.number("looked_ms");
  connection.state_ms = object.number("state_ms");
  connection.moved = object.number("moved");
  connection.new_epochs = object.number("new_epochs");
  connection.still = object.truth("still");
  connection.degraded = object.truth("degraded");
  connection.pairs = object.list("pairs", record::kPairs, readPair);
  connection.queue_pairs = object.list("queue_pairs", record::kQueuePairs, readQueuePair);
  for (QueuePairFacts& queue_pair : connection.queue_pairs)
    if (queue_pair.pair >= static_cast<int>(connection.pairs.size())) queue_pair.pair = -1;
  return connection;
}

// "S", "" or an unknown text: a letter, or 0.
char readKernelState(const std::string& text) {
  return text.size() == 1 && text[0] >= 'A' && text[0] <= 'z' ? text[0] : '\0';
}

ProcessFacts readProcess(const Json& json, std::string& error) {
  ObjectReader object(json, error);
  ProcessFacts process;
  process.host = object.text("host");
  process.boot_id = object.text("boot_id");
  process.pid = object.smallNumber("pid");
  process.process_start = object.number("process_start");
  process.alive = object.truth("alive");
  process.ended = object.truth("ended");
  process.spy = object.truth("spy");
  process.kernel_state = readKernelState(object.text("kernel_state"));
  process.gone_ms = object.number("gone_ms");
  process.between_ms = object.number("between_ms");
  process.rank = object.between("rank", -1, kMostRank);
  process.ranks = object.between("ranks", -1, kMostRank);
  process.program = object.text("program");
  process.unrecorded = object.number("unrecorded");
  process.slow_setup = object.text("slow_setup");
  process.rails = object.list("rails", record::kMostRails, readRail);
  process.connections = object.list("connections", kMostConnections, readConnection);
  for (ConnectionFacts& connection : process.connections)
    for (PairFacts& pair : connection.pairs)
      if (pair.rail >= static_cast<int>(process.rails.size())) pair.rail = -1;
  return process;
}

// `processes`: how many lines of processes follow.
HostFacts readHost(const Json& json, uint64_t& processes, std::string& error) {
  ObjectReader object(json, error);
  HostFacts host;
  if (object.text("schema") != kSchema) object.fail("schema", std::string("\"") + kSchema + "\"");
  if (object.number("schema_version") != kSchemaVersion)
    object.fail("schema_version", "1, as this railwise speaks: use the version of this host there");
  host.asked = object.text("asked");
  host.name = object.text("name");
  host.error = object.text("error");
  host.notes = object.list("notes", kMostNotes, readText);
  processes = object.number("processes");
  if (processes > kMostProcesses)
    object.fail("processes", "a number of at most " + std::to_string(kMostProcesses));
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

class LineReader {
 public:
  // Adds what a line says. Returns what is wrong with it, or "".
  std::string take(std::string_view line) {
    if (line.size() > kMostLine) return "the line is too long";
    if (tooDeep(line)) return "no JSON of railwise stuck --gather";
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_discarded()) return "no JSON, or cut";
    std::string error;
    if (json.contains("schema")) {
      if (const std::string cut = missing(); !cut.empty()) return cut;
      HostFacts host = readHost(json, announced_, error);
      if (error.empty()) hosts_.push_back(std::move(host));
      return error;
    }
    if (hosts_.empty()) return "no line of a host stands before it";
    if (hosts_.back().processes.size() >= announced_)
      return "one more process than the line of the host says";
    ProcessFacts process = readProcess(json, error);
    if (error.empty()) hosts_.back().processes.push_back(std::move(process));
    return error;
  }
  // "" if all processes of the last host are there.
  std::string missing() const {
    if (hosts_.empty() || hosts_.back().processes.size() == announced_) return "";
    return "cut: " + std::to_string(hosts_.back().processes.size()) + " of " + std::to_string(announced_) +
           " processes of the host before it are there";
  }
  std::vector<HostFacts> takeHosts() { return std::move(hosts_); }
  bool empty() const { return hosts_.empty(); }

 private:
  std::vector<HostFacts> hosts_;
  uint64_t announced_ = 0;  // processes of the last host
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
  for (const ProcessFacts& process : host.processes) text += line(jsonOf(process));
  return text;
}

Outcome<std::vector<HostFacts>> parseJsonLines(std::string_view text, const std::string& source) {
  LineReader reader;
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
    if (const std::string wrong = reader.take(line); !wrong.empty()) return error(wrong);
  }
  if (reader.empty())
    return Error{source + ": no line of railwise stuck --gather in it: is railwise of this version there?"};
  if (const std::string cut = reader.missing(); !cut.empty()) return error(cut);
  return reader.takeHosts();
}

}  // namespace railwise::observe
