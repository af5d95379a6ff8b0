#include <algorithm>
#include <cmath>

#include "base/text/text_layout.h"
#include "base/text/words.h"
#include "topo/explain/describe.h"
#include "topo/outputs/drawing/drawing.h"
#include "topo/outputs/outputs.h"
#include "topo/outputs/parts.h"

namespace railwise::topo {
namespace {

constexpr double kHeadHeight = 52;
constexpr double kKeyHeight = 22;

std::string number(double value) { return formatText("%.5g", std::round(value * 10) / 10); }

std::string attribute(const char* name, double value) {
  return std::string(" ") + name + "=\"" + number(value) + "\"";
}

std::string textAt(const char* style, double x, double y, const std::string& text) {
  return std::string("<text class=\"") + style + "\"" + attribute("x", x) + attribute("y", y) + ">" +
         escapeXml(text) + "</text>";
}

// The line's thickness: 12 GB/s and 370 GB/s look different, and neither covers its neighbours.
double thickness(float bandwidth) { return 0.5 + 0.5 * std::log2(1 + static_cast<double>(bandwidth)); }

class SvgWriter {
 public:
  SvgWriter(const Drawing& drawing, const Graph& graph, const SvgOptions& options)
      : drawing_(drawing), graph_(graph), options_(options), head_(options.title.empty() ? 0 : kHeadHeight) {}

  std::string whole() {
    addKey();
    const double title = options_.title.empty() ? 0 : 32 + 10.5 * static_cast<double>(options_.title.size());
    const double width = std::max({drawing_.width, key_width_, title, head_ > 0 ? 480.0 : 0.0});
    const double height = head_ + drawing_.height + key_height_;
    std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"rw\" viewBox=\"0 0 " +
                      number(width) + " " + number(height) + "\"" + attribute("width", width) +
                      attribute("height", height) +
                      (options_.interactive ? " role=\"group\"" : " role=\"img\"") + " aria-label=\"" +
                      escapeXml("Topology of " + options_.title) + "\">\n";
    if (!options_.interactive) svg += "<style>" + std::string(svgStyle()) + "</style>\n";
    if (!options_.interactive) svg += "<rect width=\"100%\" height=\"100%\" fill=\"var(--bg)\"/>\n";
    if (head_ > 0) addHead();
    svg += head_text_;
    if (head_ > 0) svg += "<g transform=\"translate(0 " + number(head_) + ")\">\n";
    for (const Frame& frame : drawing_.frames) addFrame(frame);
    for (const Wire& wire : drawing_.wires) addWire(wire);
    for (const Box& box : drawing_.boxes) addBox(box);
    for (const Wire& wire : drawing_.wires) addLabel(wire);
    for (const Caption& caption : drawing_.captions)
      text_ += textAt("name", caption.x, caption.y, caption.text) + "\n";
    svg += text_;
    if (head_ > 0) svg += "</g>\n";
    return svg + key_ + "</svg>\n";
  }

 private:
  void addHead() {
    head_text_ = textAt("head", 16, 26, options_.title) + "\n" +
                 textAt("sub", 16, 44, countsText(graph_) + "; numbers are GB/s in one direction") + "\n";
  }

  void addFrame(const Frame& frame) {
    text_ += "<rect class=\"frame " + frame.kind + "\"" + attribute("x", frame.x) + attribute("y", frame.y) +
             attribute("width", frame.width) + attribute("height", frame.height) + " rx=\"8\"/>\n";
    if (!frame.title.empty()) text_ += textAt("title", frame.x + 12, frame.y + 16, frame.title) + "\n";
  }

  static std::string pathData(const Wire& wire) {
    std::string data;
    for (std::size_t i = 0; i < wire.points.size(); ++i) {
      if (i == 0) data += "M";
      if (i == 1) data += wire.curved ? "C" : "L";
      if (i > 1) data += " ";
      data += number(wire.points[i].x) + " " + number(wire.points[i].y);
    }
    return data;
  }

  void addWire(const Wire& wire) {
    const bool fabric = wire.kind == "fabric";
    text_ += "<path class=\"wire " + wire.kind + (wire.slow ? " slow" : "") + "\" d=\"" + pathData(wire) +
             "\"" + attribute("stroke-width", fabric ? 6 : thickness(wire.bandwidth));
    text_ += " data-a=\"" + std::to_string(wire.a) + "\" data-b=\"" + std::to_string(wire.b) + "\">";
    if (!fabric) {
      text_ += "<title>" +
               escapeXml(nodeName(graph_, wire.a) + " to " + nodeName(graph_, wire.b) + ": " +
                         gbText(wire.bandwidth) + " GB/s" + (wire.slow ? ", slower than the NIC" : "")) +
               "</title>";
    }
    text_ += "</path>\n";
  }

  void addLabel(const Wire& wire) {
    if (wire.label.empty()) return;
    const std::string style = std::string("speed") + (wire.slow ? " slow" : "");
    text_ += textAt(style.c_str(), wire.label_x, wire.label_y, wire.label) + "\n";
  }

  std::string boxStart(const Box& box) const {
    const std::string nodes = joined(box.nodes, " ", [](NodeIndex node) { return std::to_string(node); });
    std::string text = "<g class=\"box " + box.kind + (box.bad ? " bad" : "") + "\" data-n=\"" + nodes + "\"";
    const Node& first = graph_.node(box.nodes[0]);
    const bool choice = first.type == NodeType::kGpu || first.type == NodeType::kNet;
    if (!options_.interactive || !choice) return text + ">";
    const bool gpu = first.type == NodeType::kGpu;
    const std::string index = std::to_string(first.index);
    return text + " id=\"" + (gpu ? "gpu-" + std::to_string(first.rank) : "nic-" + index) + "\" data-" +
           (gpu ? "gpu" : "net") + "=\"" + index +
           "\" tabindex=\"0\" role=\"button\" aria-pressed=\"false\">";  // its <title> is its name
  }

  void addBox(const Box& box) {
    text_ += boxStart(box) + "<title>" + escapeXml(box.tip) + "</title><rect" + attribute("x", box.x) +
             attribute("y", box.y) + attribute("width", box.width) + attribute("height", box.height) +
             " rx=\"5\"/>";
    if (box.kind == "cpu" || box.kind == "pci") {
      addOneLine(box);
    } else if (box.kind == "nic") {
      text_ +=
          textAt("small", box.x + box.width / 2, box.y + 14, fittedText(box.lines[0], box.width, kCharacter));
    } else {
      addLines(box);
    }
    text_ += "</g>\n";
  }

  // Writes both parts of the box's text on one line if they fit, otherwise the part with more information.
  void addOneLine(const Box& box) {
    const double x = box.x + box.width / 2;
    const double y = box.y + box.height / 2 + 4;
    const bool cpu = box.kind == "cpu";
    std::string line = box.lines[0] + (box.lines.size() > 1 ? (cpu ? ", " : " ") + box.lines.back() : "");
    if (static_cast<double>(line.size()) * (cpu ? kNameCharacter : kCharacter) + 6 > box.width)
      line = cpu ? box.lines[0] : box.lines.back();
    text_ +=
        textAt(cpu ? "name" : "small", x, y, fittedText(line, box.width, cpu ? kNameCharacter : kCharacter));
  }

  void addLines(const Box& box) {
    constexpr double kLine = 15;
    const auto count = static_cast<double>(box.lines.size());
    double y = box.y + (box.height - count * kLine) / 2 + 11.5;
    for (const std::string& line : box.lines) {
      const bool first = &line == &box.lines[0];
      const bool last = &line == &box.lines.back();
      const char* style = first ? "name" : last && box.kind == "gpu" ? "small state" : "small";
      text_ += textAt(style, box.x + box.width / 2, y,
                      fittedText(line, box.width, first ? kNameCharacter : kCharacter));
      y += kLine;
    }
  }

  // Adds a legend of the colours and lines that occur in the drawing.
  void addKey() {
    const auto has = [&](const char* kind) {
      return std::any_of(drawing_.wires.begin(), drawing_.wires.end(),
                         [&](const Wire& w) { return w.kind == kind; });
    };
    const bool slow =
        std::any_of(drawing_.wires.begin(), drawing_.wires.end(), [](const Wire& w) { return w.slow; });
    const bool bad =
        std::any_of(drawing_.boxes.begin(), drawing_.boxes.end(), [](const Box& b) { return b.bad; });
    if (has("pci")) keyLine("wire pci", "PCIe");
    if (has("nvl")) keyLine("wire nvl", isXgmi(graph_) ? "xGMI" : "NVLink");
    if (has("c2c")) keyLine("wire c2c", "C2C, CPU to GPU");
    if (has("sys")) keyLine("wire sys", "between NUMA nodes");
    if (has("loc")) keyLine("wire loc", "switch to switch");
    if (slow) keyLine("wire slow", "slower than the NIC");
    if (bad) keyBox("GPU with a problem: railwise explain says which");
    key_width_ = std::max(key_width_, key_x_);
    key_height_ = key_.empty() ? 0 : key_y_ + kKeyHeight + 6;
    key_ = "<g class=\"key\" transform=\"translate(0 " + number(head_ + drawing_.height + 6) + ")\">" + key_ +
           "</g>\n";
  }

  void keyPlace(const std::string& text) {
    const double wanted = 40 + static_cast<double>(text.size()) * 7 + 14;
    if (key_x_ > 16 && key_x_ + wanted > std::max(drawing_.width, 420.0)) {
      key_x_ = 16;
      key_y_ += kKeyHeight;
    }
    key_ += textAt("", key_x_ + 38, key_y_ + 15, text);
  }

  void keyLine(const char* style, const std::string& text) {
    keyPlace(text);
    key_ += std::string("<path class=\"") + style + "\" stroke-width=\"3.5\" d=\"M" + number(key_x_) + " " +
            number(key_y_ + 11) + "h30\"/>";
    advanceKey(text);
  }

  void keyBox(const std::string& text) {
    keyPlace(text);
    key_ += "<g class=\"box gpu bad\"><rect" + attribute("x", key_x_ + 2) + attribute("y", key_y_ + 4) +
            " width=\"26\" height=\"14\" rx=\"4\"/></g>";
    advanceKey(text);
  }

  void advanceKey(const std::string& text) {
    key_x_ += 40 + static_cast<double>(text.size()) * 7 + 14;
    key_width_ = std::max(key_width_, key_x_);
  }

  const Drawing& drawing_;
  const Graph& graph_;
  const SvgOptions& options_;
  const double head_;
  std::string head_text_;
  std::string text_;
  std::string key_;
  double key_x_ = 16, key_y_ = 0, key_width_ = 0, key_height_ = 0;
};

}  // namespace

std::string svgElement(const Drawing& drawing, const Graph& graph, const SvgOptions& options) {
  return SvgWriter(drawing, graph, options).whole();
}

std::string svgText(const Machine& machine) {
  const MachineExplanation all = explain(machine);
  const std::string title = machine.name + " by the rules of " + rulesText(machine);
  return svgElement(drawMachine(machine, all), *machine.graph, {.title = title});
}

}  // namespace railwise::topo
