#include <algorithm>

#include "base/text/text_layout.h"
#include "base/text/words.h"
#include "topo/explain/describe.h"
#include "topo/outputs/outputs.h"
#include "topo/transports/transports.h"

namespace railwise::topo {
namespace {

// A table with a row for each sender and a column for each receiver.
class Grid {
 public:
  Grid(std::string corner, std::vector<std::string> columns)
      : corner_(std::move(corner)), columns_(std::move(columns)), width_(0) {
    for (const std::string& column : columns_) width_ = std::max(width_, column.size());
  }

  void add(const std::string& name, std::vector<std::string> cells) {
    for (const std::string& cell : cells) width_ = std::max(width_, cell.size());
    rows_.emplace_back(name, std::move(cells));
  }

  bool fits() const { return nameWidth() + columns_.size() * (width_ + 1) <= kTextColumns; }

  std::string text() const {
    std::string text = line(corner_, columns_);
    for (const auto& [name, cells] : rows_) text += line(name, cells);
    return text;
  }

 private:
  std::size_t nameWidth() const {
    std::size_t width = corner_.size();
    for (const auto& [name, cells] : rows_) width = std::max(width, name.size());
    return width;
  }

  std::string line(const std::string& name, const std::vector<std::string>& cells) const {
    std::string text = name + std::string(nameWidth() - name.size(), ' ');
    for (const std::string& cell : cells) text += std::string(width_ + 1 - cell.size(), ' ') + cell;
    return text + "\n";
  }

  std::string corner_;
  std::vector<std::string> columns_;
  std::size_t width_;
  std::vector<std::pair<std::string, std::vector<std::string>>> rows_;
};

std::string cellText(const TransportClass& each, const TransportRow& row) {
  const Transport& transport = each.first;
  if (transport.kind != TransportKind::kP2p) return transportKindName(transport.kind);
  if (transport.means == P2pMeans::kIndirect) return "via " + std::to_string(row.intermediate_rank);
  if (transport.means == P2pMeans::kMnnvl) return "MNNVL";
  return transport.read ? "P2P/read" : "P2P";
}

// One letter, for a matrix that would be too wide.
std::string letterOf(const std::string& cell) {
  if (cell == "P2P/read") return "R";
  return cell.substr(0, 1);
}

class TransportsWriter {
 public:
  TransportsWriter(const Transports& transports, const TransportsShown& shown)
      : transports_(transports), machine_(transports.machine()), graph_(*machine_.graph), shown_(shown) {}

  std::string whole() {
    writeHead();
    if (shown_.from >= 0 && shown_.to >= 0) {
      if (shown_.from != shown_.to) writePair(false);
      if (shown_.nodes > 1) writePair(true);
      return text_;
    }
    writeHere();
    if (shown_.nodes > 1) writeOtherHost();
    writeNvls();
    return text_;
  }

 private:
  void writeHead() {
    text_ += wrappedText(
        machine_.name + ": " + counted(static_cast<int>(transports_.ranks().size()), "GPU") +
            (transports_.job().one_process ? ", one process for all of a host" : ", a process for each") +
            "; by the rules of " + rulesText(machine_),
        "", "  ");
    for (const std::string& set : machine_.settings->from_environment) text_ += "  set: " + set + "\n";
    for (const std::string& warning : machine_.settings->warnings)
      text_ += wrappedText(warning, "  warning: ", "    ");
    for (const std::string& remark : machine_.remarks) text_ += wrappedText(remark, "  note: ", "    ");
    const std::string domain = nvlinkDomain(machine_);
    if (!domain.empty() && shown_.nodes > 1)
      text_ += wrappedText("the GPUs belong to the NVLink domain " + domain +
                               ": they reach hosts of this domain by P2P/MNNVL, and others as shown here",
                           "  note: ", "    ");
  }

  PairFilter filter(bool other_host) const {
    return {.from = shown_.from, .to = shown_.to, .other_host = other_host, .channel = shown_.channel};
  }

  // The ranks of the rows or columns.
  std::vector<int> listed(int only) const {
    if (only >= 0) return {only};
    return transports_.ranks();
  }

  std::vector<std::string> columns(bool other_host) const {
    std::vector<std::string> names;
    for (const int to : listed(shown_.to)) names.push_back(std::to_string(to + (other_host ? ranks() : 0)));
    return names;
  }

  int ranks() const { return static_cast<int>(transports_.ranks().size()); }

  template <typename Cell>
  Grid grid(const TransportTable& table, bool other_host, const Cell& cell) const {
    Grid grid("GPU", columns(other_host));
    std::size_t at = 0;
    for (const int from : listed(shown_.from)) {
      std::vector<std::string> cells;
      for (const int to : listed(shown_.to))
        cells.push_back(from == to && !other_host ? "X" : cell(table.rows[at++]));
      grid.add(std::to_string(from), std::move(cells));
    }
    return grid;
  }

  void writeHere() {
    const TransportTable table = tabulate(transports_, filter(false));
    const auto full = [&](const TransportRow& row) { return cellText(table.classes[row.index], row); };
    text_ += "\nFrom the GPU of the row to the GPU of the column\n\n";
    const Grid wide = grid(table, false, full);
    if (wide.fits()) {
      text_ += wide.text();
    } else {
      writeLetters(table);
      text_ += "\nP: P2P, R: P2P and the receiver reads, v: P2P via a third GPU, M: MNNVL, S: SHM, N: NET\n";
    }
    writeClasses(table);
  }

  // One column for each GPU: the last two digits of its rank above it.
  void writeLetters(const TransportTable& table) {
    constexpr std::size_t kName = 5;
    std::string tens = "GPU  ";
    std::string ones(kName, ' ');
    for (const int to : listed(shown_.to)) {
      tens += to % 10 == 0 ? std::to_string(to / 10 % 10) : " ";
      ones += std::to_string(to % 10);
    }
    text_ += tens + "\n" + ones + "\n";
    std::size_t at = 0;
    for (const int from : listed(shown_.from)) {
      std::string line = std::to_string(from);
      line.resize(std::max(kName, line.size() + 1), ' ');
      for (const int to : listed(shown_.to)) {
        if (from == to) {
          line += 'X';
          continue;
        }
        const TransportRow& row = table.rows[at++];
        line += letterOf(cellText(table.classes[row.index], row));
      }
      text_ += line + "\n";
    }
  }

  void writeOtherHost() {
    const TransportTable table = tabulate(transports_, filter(true));
    text_ += "\nTo another host like this (ranks " + std::to_string(ranks()) + " to " +
             std::to_string(2 * ranks() - 1) + "), send and receive on channel " +
             std::to_string(shown_.channel) +
             "\nThe number of the sending NIC; (GPU): this GPU sends, and not the row's (PXN)\n\n";
    Grid rows = grid(table, true, [&](const TransportRow& row) -> std::string {
      if (row.sender.net < 0) return "none";
      const std::string net = std::to_string(graph_.of(NodeType::kNet, row.sender.net).dev);
      return row.sender.proxy_rank == row.pair.from ? net
                                                    : net + "(" + std::to_string(row.sender.proxy_rank) + ")";
    });
    std::vector<std::string> receivers;
    for (std::size_t i = 0; i < listed(shown_.to).size(); ++i) {
      const NetEnd& end = table.rows[i].receiver;
      receivers.push_back(end.net < 0 ? "none" : std::to_string(graph_.of(NodeType::kNet, end.net).dev));
    }
    rows.add("received by", std::move(receivers));
    text_ += rows.text() + "\n";
    text_ += wrappedText(nicNames(), "NIC: ", "     ");
    writeClasses(table);
  }

  // "0 mlx5_0, 1 mlx5_1", by number.
  std::string nicNames() const {
    std::vector<NodeIndex> nets = graph_.of(NodeType::kNet);
    std::stable_sort(nets.begin(), nets.end(), [&](NodeIndex a, NodeIndex b) {
      return std::pair(graph_.node(a).host, graph_.node(a).dev) <
             std::pair(graph_.node(b).host, graph_.node(b).dev);
    });
    return joined(nets, ", ", [&](NodeIndex net) {
      return std::to_string(graph_.node(net).dev) + " " + netName(graph_, graph_.node(net).index);
    });
  }

  void writeClasses(const TransportTable& table) {
    for (const TransportClass& each : table.classes) {
      text_ += "\n" + each.name + " (" + counted(each.pairs, "pair") + ")\n";
      writeSteps(each.first, "  ");
    }
  }

  void writeSteps(const Transport& transport, const std::string& indent) {
    const std::string other = indent + "          ";
    for (const TransportStep& step : transport.steps) {
      const std::string name = transportKindName(step.kind);
      text_ += wrappedText(step.reason, indent + name + (step.taken ? "  yes: " : "  no:  "), other);
    }
    if (transport.kind == TransportKind::kNet) {
      text_ += wrappedText(gdrText(transport.sender), indent + "GPUDirect of the sender ", other);
      text_ += wrappedText(gdrText(transport.receiver), indent + "GPUDirect of the receiver ", other);
    }
    if (!transport.warning.empty()) text_ += wrappedText(transport.warning, indent + "Warning: ", other);
  }

  static std::string gdrText(const NetEnd& end) {
    return (end.gdr == GdrMode::kOff ? "off: " : "on: ") + end.gdr_reason;
  }

  void writePair(bool other_host) {
    const RankPair pair{
        .from = shown_.from, .to = shown_.to, .other_host = other_host, .channel = shown_.channel};
    const Transport transport = transports_.between(pair);
    text_ += "\nGPU " + std::to_string(pair.from) + " -> GPU " + std::to_string(pair.to) +
             (other_host ? " of another host like this: " : ": ") + transportName(transport);
    if (transport.kind == TransportKind::kNet) {
      text_ +=
          ", " + netName(graph_, transport.sender.net) + " -> " + netName(graph_, transport.receiver.net);
    }
    if (transport.intermediate_rank >= 0)
      text_ += ", through GPU " + std::to_string(transport.intermediate_rank);
    text_ += "\n";
    writeSteps(transport, "  ");
    if (!transport.pxn_reason.empty())
      text_ += wrappedText(transport.pxn_reason, "  PXN  yes: ", "            ");
    text_ += "  In NCCL's log (NCCL_DEBUG=INFO):\n";
    for (const std::string& line : transports_.logLines(pair, transport)) text_ += "    " + line + "\n";
  }

  void writeNvls() {
    text_ += "\n";
    for (const Domain& domain : machine_.domains) {
      const NvlsAnswer answer = transports_.nvls(domain.ranks.front());
      const std::string whose = machine_.domains.size() > 1 ? " of GPUs " + rangesText(domain.ranks) : "";
      text_ += wrappedText(answer.reason, "NVLS" + whose + (answer.used ? ": yes: " : ": no: "), "  ");
    }
  }

  const Transports& transports_;
  const Machine& machine_;
  const Graph& graph_;
  const TransportsShown shown_;
  std::string text_;
};

}  // namespace

std::string transportsText(const Transports& transports, const TransportsShown& shown) {
  return TransportsWriter(transports, shown).whole();
}

}  // namespace railwise::topo
