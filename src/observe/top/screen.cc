#include "observe/top/screen.h"

#include <algorithm>
#include <functional>
#include <tuple>

#include "base/text/text_layout.h"

namespace railwise::observe::top {
namespace {

using record::Connection;
using record::RailState;

// Lines of news: more would hide the tables. The view of events has all, as has paper.
std::size_t mostHeadLines(const Style& style) {
  if (style.height <= 0) return SIZE_MAX;
  const auto height = static_cast<std::size_t>(style.height);
  return std::max<std::size_t>(2, height / (style.view == View::kEvents ? 2 : 8));
}

std::string rateCell(const Traffic& traffic, double bytes_per_s, bool bits) {
  return traffic.known ? rateText(bytes_per_s, bits) : "-";
}

std::string messagesCell(const Traffic& traffic) {
  return traffic.known ? countText(traffic.messages_in + traffic.messages_out) : "-";
}

const char* unit(const Style& style) { return style.bits ? "Gb/s" : "GB/s"; }

std::string clockText(uint64_t unix_ns, const Style& style) {
  const int64_t seconds = static_cast<int64_t>(unix_ns / 1000000000) + style.utc_offset_s;
  const int64_t of_day = (seconds % 86400 + 86400) % 86400;
  return formatText("%02d:%02d:%02d", static_cast<int>(of_day / 3600), static_cast<int>(of_day / 60 % 60),
                    static_cast<int>(of_day % 60));
}

// ---- headline and sums

Look newsLook(Severity severity) {
  return severity == Severity::kBad       ? Look::kBadNews
         : severity == Severity::kWarning ? Look::kWarningNews
                                          : Look::kGoodNews;
}

// The news, the worst first, on as few lines as they need.
std::vector<Line> headLines(const Model& model, const Style& style) {
  std::vector<std::string> lines(1);
  std::size_t shown = 0;
  for (const News& news : model.news) {
    const std::string text = cleanText(news.text, style.utf8);
    const std::string joined = lines.back().empty() ? text : lines.back() + "; " + text;
    if (textWidth(joined) <= style.width || lines.back().empty()) lines.back() = joined;
    else if (lines.size() < mostHeadLines(style)) lines.push_back(text);
    else break;
    ++shown;
  }
  if (shown < model.news.size()) {
    const std::string more = "; " + std::to_string(model.news.size() - shown) + " more";
    lines.back() = cutText(lines.back(), style.width - textWidth(more), style.utf8) + more;
  }
  std::vector<Line> result;
  for (std::string& line : lines)
    result.emplace_back(cutText(line, style.width, style.utf8), newsLook(model.news.front().severity));
  return result;
}

Line sumLine(const Model& model, const Style& style) {
  const Sums& sums = model.sums;
  std::vector<std::string> parts = {clockText(model.unix_ns, style)};
  if (style.paused) parts.insert(parts.begin(), "PAUSED");
  const std::string rates = sums.traffic.known
                                ? "in " + rateText(sums.traffic.bytes_in, style.bits) + " out " +
                                      rateText(sums.traffic.bytes_out, style.bits) + " " + unit(style)
                                : std::string("no rates yet");
  parts.push_back(rates);
  if (sums.traffic.known) parts.push_back(messagesCell(sums.traffic) + " msg/s");
  parts.push_back(std::to_string(sums.up) + "/" + std::to_string(sums.connections) + " conns up");
  if (sums.open > 0) parts.push_back(counted(sums.open, "message", "messages") + " open");
  parts.push_back(counted(sums.processes, "process", "processes"));
  if (!model.host().empty()) parts.push_back(cleanText(model.host(), style.utf8));
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty() && textWidth(text) + 2 + textWidth(part) > style.width) continue;
    text += (text.empty() ? "" : "  ") + part;
  }
  return Line(text, style.paused ? Look::kWarning : Look::kPlain);
}

// ---- rails

Cell stateCell(const RailRow& rail) {
  if (rail.down()) return {rail.state == RailState::kDown ? "DOWN" : "FAILED", Look::kBad};
  return rail.state == RailState::kUp ? Cell{"up", Look::kGood} : Cell{"?", Look::kDim};
}

// The rows in the order of their keys.
template <typename Row, typename KeyOf>
std::vector<const Row*> ordered(const std::vector<Row>& rows, KeyOf keyOf) {
  std::vector<const Row*> all;
  for (const Row& row : rows) all.push_back(&row);
  std::ranges::stable_sort(all, {}, [&](const Row* row) { return keyOf(*row); });
  return all;
}

double bothWays(const Traffic& traffic) { return traffic.bytes_in + traffic.bytes_out; }

// What a table has no column for.
std::string railDetails(const RailRow& rail, const Style& style) {
  std::vector<std::string> parts;
  if (rail.link != 0) parts.push_back(rowOf(record::kLinkNames, rail.link, "").words);
  if (rail.state_age_ns != 0) parts.push_back("so since " + ageText(rail.state_age_ns));
  if (rail.rail >= 0) parts.push_back("rail " + std::to_string(rail.rail));
  if (rail.plane > 0) parts.push_back("plane " + std::to_string(rail.plane));
  if (rail.measured_mbps != 0)
    parts.push_back("measured " + rateText(rail.measured_mbps * 1e6 / 8, style.bits) + " " + unit(style));
  parts.push_back(counted(rail.connections, "connection"));
  parts.push_back(counted(rail.processes, "process", "processes"));
  if (rail.returns != 0) parts.push_back(counted(rail.returns, "return"));
  if (rail.device_lives != 0) parts.push_back("opened anew " + counted(rail.device_lives, "time"));
  record::visitErrors(rail, [&](const char* words, uint64_t number) {
    parts.push_back(std::to_string(number) + " x " + words);
  });
  return joined(parts);
}

std::vector<const RailRow*> orderedRails(const Model& model, Order order) {
  return ordered(model.rails, [order](const RailRow& rail) {
    if (order == Order::kTraffic) return -bothWays(rail.traffic);
    if (order == Order::kName || rail.down()) return 0.0;
    return errorSum(rail.grown) + rail.grown.failovers > 0 ? 1.0 : 2.0;
  });
}

std::vector<Line> railLines(const Model& model, const Style& style, bool details) {
  const std::string of = std::string("OF ") + unit(style);
  const bool hosts = model.host().empty();
  Table table({{"RAIL", 8, hosts ? 28 : 20, 10, false, Cut::kMiddle},
               {"STATE", 6, 6, 9},
               {"LOAD", 6, 6, 5, false, Cut::kEnd, true},
               {"", 4, 4, 2, true},
               {"IN", 5, 5, 8, true},
               {"OUT", 5, 5, 8, true},
               {of.c_str(), 7, 7, 3, true},
               {"ERR", 4, 4, 7, true},
               {"FAILOV", 6, 6, 6, true}},
              style.utf8);
  for (const RailRow* const row : orderedRails(model, style.order)) {
    const RailRow& rail = *row;
    const double load = rail.load();
    const bool known = load >= 0 && rail.traffic.known;
    const auto counter = [](uint64_t all, uint64_t fresh) {
      return Cell{countText(static_cast<double>(all)), fresh > 0 ? Look::kBad
                                                       : all > 0 ? Look::kWarning
                                                                 : Look::kDim};
    };
    table.add(
        {{(hosts ? rail.host + " " : "") + shortRailText(rail), rail.down() ? Look::kBad : Look::kPlain},
         stateCell(rail),
         known ? Cell{"", Look::kGood, load} : Cell{"-", Look::kDim},
         {known ? formatText("%.0f%%", std::min(load * 100, 999.0)) : ""},
         {rateCell(rail.traffic, rail.traffic.bytes_in, style.bits)},
         {rateCell(rail.traffic, rail.traffic.bytes_out, style.bits)},
         {rail.claimed_mbps == 0 ? "-" : rateText(rail.claimed_mbps * 1e6 / 8, style.bits)},
         counter(errorSum(rail), errorSum(rail.grown)),
         counter(rail.failovers, rail.grown.failovers)},
        details ? railDetails(rail, style) : "");
  }
  return table.lines(style.width);
}

// ---- processes

std::string programText(const record::Process& process) {
  return process.program + (process.spy ? " (spy)" : "");
}

std::vector<const ProcessRow*> orderedProcesses(const Model& model, Order order) {
  return ordered(model.processes, [order](const ProcessRow& row) {
    if (order == Order::kTraffic) return std::tuple(0, -bothWays(row.traffic));
    if (order == Order::kName || !row.worst) return std::tuple(9, 0.0);
    // Several processes wait: the one that NCCL does not call holds up the others.
    const int stage = row.worst->stage <= Stage::kNoPath ? static_cast<int>(row.worst->stage)
                      : row.still_ns > 0 || row.hangs_ns > 0 || row.not_called_ns > 0 ? 2
                      : row.worst->stage <= Stage::kComingUp ? 1 + static_cast<int>(row.worst->stage)
                                                             : 9;
    return std::tuple(stage, stage == 9 ? 0.0 : -static_cast<double>(row.worst->age_ns));
  });
}

Look waitsLook(const ProcessRow& row) {
  if (row.worst && row.worst->stage <= Stage::kNoPath) return Look::kBad;
  if (row.still_ns > 0 || row.hangs_ns > 0 || row.not_called_ns > 0 || row.oldest_age_ns >= kLongWaitNs)
    return Look::kBad;
  if (!row.snapshot->process.alive) return Look::kDim;
  return row.oldest_age_ns >= kWaitNs ? Look::kWarning : Look::kPlain;
}

std::vector<Line> processLines(const Model& model, const Style& style) {
  std::vector<Column> columns = {
      {"PID", 7, 7, 10, true},   {"RANK", 4, 6, 9, true},   {"PROGRAM", 7, 24, 4},
      {"UP/ALL", 7, 9, 6, true}, {"IN", 5, 5, 5, true},     {"OUT", 5, 5, 5, true},
      {"MSG/S", 5, 5, 3, true},  {"OLDEST", 6, 6, 7, true}, {"WAITS FOR", 13, 18, 8}};
  const bool hosts = model.host().empty();
  if (hosts) columns.insert(columns.begin() + 3, {"HOST", 6, 24, 2, false, Cut::kMiddle});
  Table table(columns, style.utf8);
  for (const ProcessRow* const row : orderedProcesses(model, style.order)) {
    const record::Process& process = row->snapshot->process;
    const Look look = waitsLook(*row);
    std::vector<Cell> cells = {{std::to_string(process.pid), process.alive ? Look::kPlain : Look::kDim},
                               {process.rank < 0 ? "-" : std::to_string(process.rank)},
                               {programText(process)},
                               {std::to_string(row->up) + "/" + std::to_string(row->connections),
                                row->up < row->connections && process.alive ? Look::kWarning : Look::kPlain},
                               {rateCell(row->traffic, row->traffic.bytes_in, style.bits)},
                               {rateCell(row->traffic, row->traffic.bytes_out, style.bits)},
                               {messagesCell(row->traffic)},
                               {row->oldest_age_ns == 0 ? "-" : ageText(row->oldest_age_ns), look},
                               {waitsText(*row), look}};
    if (hosts) cells.insert(cells.begin() + 3, {hostOf(process)});
    table.add(std::move(cells));
  }
  return table.lines(style.width);
}

// ---- connections

std::vector<const ConnectionRow*> orderedConnections(const Model& model, Order order) {
  if (order == Order::kTraffic)
    return ordered(model.connections, [](const ConnectionRow& row) { return -bothWays(row.traffic); });
  if (order == Order::kName)
    return ordered(model.connections, [](const ConnectionRow& row) {
      return std::tuple(row.snapshot->process.pid, row.connection->slot);
    });
  return ordered(model.connections, [](const ConnectionRow& row) {  // what has failed, then the longest wait
    const bool waits = row.stage > Stage::kFailed && row.stage <= Stage::kComingUp;
    return std::tuple(waits ? 1 : 2 * static_cast<int>(row.stage), waits ? UINT64_MAX - row.age_ns : 0);
  });
}

const char* arrow(const Connection& connection, bool utf8) {
  if (connection.side == record::Side::kListener) return "..";
  const bool sends = connection.side == record::Side::kSender;
  if (isOneSided(connection)) return sends ? utf8 ? "⇒" : "=>" : utf8 ? "⇐" : "<=";
  return sends ? utf8 ? "→" : "->" : utf8 ? "←" : "<-";
}

Look stageLook(const ConnectionRow& row) {
  if (row.stage <= Stage::kNoPath) return Look::kBad;
  if (row.stage == Stage::kWaiting || row.stage == Stage::kComingUp)
    return row.age_ns >= kLongWaitNs ? Look::kBad : Look::kWarning;
  return row.stage == Stage::kGone ? Look::kDim : Look::kPlain;
}

std::string stateOf(const ConnectionRow& row) {
  switch (row.stage) {
    case Stage::kFailed:
      return "FAILED";
    case Stage::kNoPath:
      return row.connection->state == record::ConnectionState::kLost ? "NO PATH" : "reconn.";
    case Stage::kComingUp:
      return "coming";
    case Stage::kGone:
      return "gone";
    default:
      return row.connection->degraded ? "degr." : row.open > 0 ? "busy" : "idle";
  }
}

// `all`: the view of all connections, with their traffic; else those that wait.
std::vector<Line> connectionLines(const Model& model, const Style& style, bool all) {
  std::vector<Column> columns = {{all ? "SINCE" : "WAITS", 6, 6, 10, true},
                                 {"PID", 7, 7, 9, true},
                                 {all ? "STATE" : "FOR", all ? 7 : 13, all ? 7 : 13, 8},
                                 {"DEVICE", 7, 28, 6, false, Cut::kEnd},
                                 {"", 2, 2, 3},
                                 {"PEER", 10, 48, 7, false, Cut::kMiddle},
                                 {"PEERDEV", 7, 28, 4, false, Cut::kEnd}};
  if (all) columns.insert(columns.begin() + 5, {"KIND", 4, 8, 1});
  if (all) columns.insert(columns.end(), {{unit(style), 5, 5, 5, true}, {"MSG/S", 5, 5, 2, true}});
  columns.push_back({"OPEN", 4, 4, 5, true});
  if (all) columns.push_back({"FOR", 9, 13, 1});
  Table table(columns, style.utf8);
  for (const ConnectionRow* const row :
       all ? orderedConnections(model, style.order) : orderedConnections(model, Order::kTrouble)) {
    if (!all && row->stage > Stage::kComingUp) continue;
    const Connection& connection = *row->connection;
    const Look look = stageLook(*row);
    std::vector<Cell> cells = {{row->age_ns == 0 ? "-" : ageText(row->age_ns), look},
                               {std::to_string(row->snapshot->process.pid)},
                               {all ? stateOf(*row) : waitsText(*row), look},
                               {connection.device.empty() ? "-" : connection.device},
                               {arrow(connection, style.utf8)},
                               {connection.peer.empty() ? "?" : connection.peer},
                               {connection.peer_device.empty() ? "-" : connection.peer_device}};
    if (all) cells.insert(cells.begin() + 5, {record::endText(connection.kind, connection.side)});
    if (all)
      cells.insert(cells.end(), {{rateCell(row->traffic, bothWays(row->traffic), style.bits)},
                                 {messagesCell(row->traffic)}});
    cells.push_back({countText(static_cast<double>(row->open))});
    if (all) cells.push_back({waitsText(*row)});
    table.add(std::move(cells), connection.reason, look);
  }
  return table.lines(style.width);
}

// ---- events

std::vector<Line> eventLines(const Model& model, const Style& style) {
  struct At {
    uint64_t unix_ns;
    const record::Snapshot* snapshot;
    const record::Event* event;
  };
  std::vector<At> all;
  for (const ProcessRow& process : model.processes) {
    const record::Snapshot& snapshot = *process.snapshot;
    for (const record::Event& event : snapshot.events) {
      const uint64_t ago = snapshot.read_ns > event.at_ns ? snapshot.read_ns - event.at_ns : 0;
      all.push_back({snapshot.read_unix_ns > ago ? snapshot.read_unix_ns - ago : 0, &snapshot, &event});
    }
  }
  std::ranges::stable_sort(all, std::greater<>(), &At::unix_ns);
  Table table({{"TIME", 8, 8, 10},
               {"PID", 7, 7, 8, true},
               {"EVENT", 12, 18, 9},
               {"RAIL", 8, 20, 6, false, Cut::kMiddle},
               {"TEXT", 8, 8, 7, false, Cut::kEnd, true}},
              style.utf8);
  for (const At& at : all) {
    const record::Event& event = *at.event;
    const record::Rail* const rail = railAt(*at.snapshot, event.rail);
    table.add({{clockText(at.unix_ns, style)},
               {std::to_string(at.snapshot->process.pid)},
               {record::eventText(event.kind)},
               {rail != nullptr ? rail->device + ":" + std::to_string(rail->port) : "-"},
               {event.text}});
  }
  return table.lines(style.width);
}

// ---- frames

std::vector<Line> helpLines() {
  std::vector<Line> lines = {Line("KEYS", Look::kTitle)};
  for (const char* text :
       {"r c e h     rails, connections, events, this help; the same key or m: back",
        "arrows j k  scroll; PgUp PgDn by pages; g to the top",
        "o           order: trouble first, traffic, name", "u           GB/s or Gb/s",
        "p           pause: the screen stays as it is", "q           quit", "",
        "LOAD        the busier direction against the port's speed",
        "ERR FAILOV  since the processes began; red: some are new",
        "UP/ALL      connections that run, of all; the rest comes up or has no path",
        "OLDEST      age of the oldest message that is not complete",
        "WAITS FOR   clear-to-send: the peer has posted no receive",
        "            completion: the NIC owes it; data: the peer has sent nothing",
        "            path: no rail pair works; peer's answer: handshake or recovery",
        "            one-sided: peer's window: it is not registered there; peer's credit:",
        "            it does not take signals; signal's rest: a part of a signal has come;",
        "            own NIC: it owes the write of a signal into GPU memory",
        "-> <-       messages; => one-sided: this end puts and gets; <= it is put to",
        "            NCCL does not call: what holds it up is above the network"})
    lines.emplace_back(text);
  return lines;
}

// A list that is longer than its place: a part of it, and a line that says how much is missing.
std::vector<Line> windowOf(std::vector<Line> lines, std::size_t place, int scroll, int* most_scroll) {
  if (lines.size() <= place || place == 0) {
    if (place == 0) lines.clear();
    return lines;
  }
  const std::size_t rows = lines.size() - 1;
  const std::size_t shown = place > 2 ? place - 2 : 0;  // the title and the last line
  const std::size_t from = std::min(static_cast<std::size_t>(std::max(scroll, 0)), rows - shown);
  *most_scroll = std::max(*most_scroll, static_cast<int>(rows - shown));
  std::vector<Line> window = {lines[0]};
  for (std::size_t i = 0; i < shown; ++i) window.push_back(std::move(lines[1 + from + i]));
  if (place > 1) {
    const std::size_t below = rows - from - shown;
    window.emplace_back(below > 0 ? "    " + std::to_string(below) + " more below" : "    end of the list",
                        Look::kDim);
  }
  return window;
}

// How many lines each section gets of `place`: all it wants, or as much as the others.
std::vector<std::size_t> share(const std::vector<std::vector<Line>>& sections, std::size_t place) {
  std::vector<std::size_t> given(sections.size());
  for (bool more = true; more;) {
    more = false;
    for (std::size_t i = 0; i < sections.size() && place > 0; ++i) {
      if (given[i] == sections[i].size()) continue;
      ++given[i];
      --place;
      more = true;
    }
  }
  return given;
}

std::vector<std::vector<Line>> sectionsOf(const Model& model, const Style& style) {
  switch (style.view) {
    case View::kMain:
      break;
    case View::kRails:
      return {railLines(model, style, true)};
    case View::kConnections:
      return {connectionLines(model, style, true)};
    case View::kEvents:
      return {eventLines(model, style)};
    case View::kHelp:
      return {helpLines()};
  }
  std::vector<std::vector<Line>> sections;
  for (auto& lines :
       {railLines(model, style, false), processLines(model, style), connectionLines(model, style, false)})
    if (lines.size() > 1) sections.push_back(lines);
  return sections;
}

Line keyLine(const Style& style) {
  constexpr const char* kOrders[] = {"trouble", "traffic", "name"};
  return Line(std::string("q quit  h help  r rails  c connections  e events  p pause  o order: ") +
                  kOrders[static_cast<std::size_t>(style.order)],
              Look::kDim);
}

}  // namespace

Frame frameOf(const Model& model, const Style& style) {
  Frame frame;
  frame.lines = headLines(model, style);
  frame.lines.push_back(sumLine(model, style));
  std::vector<std::vector<Line>> sections = sectionsOf(model, style);
  if (style.height <= 0) {
    for (std::vector<Line>& lines : sections) {
      frame.lines.emplace_back();
      for (Line& line : lines) frame.lines.push_back(std::move(line));
    }
    return frame;
  }
  const std::size_t height = static_cast<std::size_t>(style.height);
  const std::size_t keys = style.keys && height > 4 ? 1 : 0;
  const std::size_t used = frame.lines.size() + keys;
  const std::vector<std::size_t> places = share(sections, height > used ? height - used : 0);
  for (std::size_t i = 0; i < sections.size(); ++i)
    for (Line& line : windowOf(std::move(sections[i]), places[i], style.scroll, &frame.most_scroll))
      frame.lines.push_back(std::move(line));
  frame.lines.resize(height - std::min(height, keys));
  if (keys > 0) frame.lines.push_back(keyLine(style));
  return frame;
}

std::string plainText(const Frame& frame, const Style& style, bool color) {
  std::string text;
  int columns = 0;
  for (const Line& line : frame.lines)
    text += (color ? escapedLine(line, style.width, style.utf8, true, &columns)
                   : plainLine(line, style.width, style.utf8)) +
            "\n";
  return text;
}

std::string escapedText(const Frame& frame, const Style& style, bool color) {
  std::string text = "\x1b[H";
  for (std::size_t i = 0; i < frame.lines.size(); ++i) {
    int columns = 0;
    if (i > 0) text += "\r\n";
    text += escapedLine(frame.lines[i], style.width, style.utf8, color, &columns);
    // Behind the last column the cursor stands on it, and would erase it.
    if (columns < style.width) text += "\x1b[K";
  }
  return text;
}

}  // namespace railwise::observe::top
