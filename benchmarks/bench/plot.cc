#include "benchmarks/bench/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "cli/options/message.h"
#include "perf/measuring/plot_parts.h"
#include "topo/outputs/svg_parts.h"

namespace railwise::tools {
namespace {

// In CSS pixels.
constexpr double kWidth = 760, kHeight = 460;
constexpr double kLeft = 76, kRight = 200, kTop = 56, kBottom = 52;
constexpr double kLegendLine = 22;
// Colours of svgStyle(); more lines than these begin anew, dashed.
constexpr std::array kColours = {"pick", "bad", "nvl", "c2c", "sys", "muted"};
constexpr double kSteps[] = {1, 2, 5};  // of a decade, that have a line

std::string sizeText(double bytes) {
  if (bytes >= 1 << 20) return textOf("%.0f MiB", bytes / (1 << 20));
  return bytes >= 1 << 10 ? textOf("%.0f KiB", bytes / (1 << 10)) : textOf("%.0f B", bytes);
}

std::string timeText(double ns) {
  if (ns >= 1e6) return textOf("%.0f ms", ns / 1e6);
  return ns >= 1e3 ? textOf("%.0f \302\265s", ns / 1e3) : textOf("%.0f ns", ns);
}

class Plot {
 public:
  explicit Plot(const std::vector<PlotLine>& lines) : lines_(lines) {
    for (const PlotLine& line : lines) {
      for (const PlotPoint& point : line.points) {
        left_ = std::min(left_, point.x);
        right_ = std::max(right_, point.x);
        bottom_ = std::min(bottom_, point.y);
        top_ = std::max(top_, point.y);
      }
    }
    bottom_ /= 1.3;  // room for the marks
    top_ *= 1.3;
  }

  std::string draw(const std::string& title) {
    svg_ = plotBegin({kWidth, kHeight, kLeft, kRight, kTop, kBottom}, "CPU time of a message", title);
    addAxes();
    for (std::size_t i = 0; i < lines_.size(); ++i) addLine(i);
    return svg_ + "</svg>\n";
  }

 private:
  double x(double bytes) const { return kLeft + share(bytes, left_, right_) * (kWidth - kLeft - kRight); }
  double y(double ns) const {
    return kHeight - kBottom - share(ns, bottom_, top_) * (kHeight - kTop - kBottom);
  }
  static double share(double value, double low, double high) {
    return high > low ? std::log(value / low) / std::log(high / low) : 0.5;
  }

  void addAxes() {
    for (double decade = 1; decade <= top_; decade *= 10) {
      for (const double step : kSteps) {
        const double ns = decade * step;
        if (ns < bottom_ || ns > top_) continue;
        svg_ += plotStraight(kLeft, y(ns), kWidth - kRight, y(ns));
        svg_ += plotText("small", "end", kLeft - 8, y(ns) + 4, timeText(ns));
      }
    }
    if (lines_.empty()) return;
    for (const PlotPoint& point : lines_[0].points) {
      svg_ += plotStraight(x(point.x), kTop, x(point.x), kHeight - kBottom);
      svg_ += plotText("small", "middle", x(point.x), kHeight - kBottom + 18, sizeText(point.x));
    }
    svg_ += plotText("sub", "middle", (kLeft + kWidth - kRight) / 2, kHeight - 12, "size of the message");
  }

  void addLine(std::size_t i) {
    const std::string stroke = textOf("stroke:var(--%s)%s", kColours[i % kColours.size()],
                                      i < kColours.size() ? "" : ";stroke-dasharray:5 3");
    std::string path;
    for (const PlotPoint& point : lines_[i].points) {
      path += textOf("%c%.1f %.1f", path.empty() ? 'M' : 'L', x(point.x), y(point.y));
      svg_ += textOf(
          "<circle r=\"3\" cx=\"%.1f\" cy=\"%.1f\" style=\"fill:var(--bg);%s\"><title>%s: %s, %.1f "
          "ns</title></circle>\n",
          x(point.x), y(point.y), stroke.c_str(), topo::escapeXml(lines_[i].name).c_str(),
          sizeText(point.x).c_str(), point.y);
    }
    svg_ += "<path style=\"fill:none;stroke-width:1.8;" + stroke + "\" d=\"" + path + "\"/>\n";
    const double legend = kTop + 8 + kLegendLine * static_cast<double>(i);
    const double from = kWidth - kRight + 16;
    svg_ +=
        textOf("<path style=\"stroke-width:2.5;%s\" d=\"M%.1f %.1fh22\"/>\n", stroke.c_str(), from, legend);
    svg_ += plotText("name", "start", from + 30, legend + 4, lines_[i].name);
  }

  const std::vector<PlotLine>& lines_;
  double left_ = std::numeric_limits<double>::max(), right_ = 0;
  double bottom_ = std::numeric_limits<double>::max(), top_ = 0;
  std::string svg_;
};

}  // namespace

std::string plotLines(const std::string& title, const std::vector<PlotLine>& lines) {
  return Plot(lines).draw(title);
}

std::string plotCosts(const BenchOptions& options, const std::vector<std::vector<Costs>>& by_size) {
  std::vector<PlotLine> lines(by_size[0].size());
  for (const std::vector<Costs>& costs : by_size) {
    for (std::size_t i = 0; i < costs.size(); ++i) {
      lines[i].name = costs[i].name;
      lines[i].points.push_back({static_cast<double>(costs[i].size), costs[i].cpu_ns_min});
    }
  }
  const BenchShape& shape = options.task.shape;
  return plotLines(textOf("both ends: %s; window %d, %d buffer(s) in a receive; least of %d repeats",
                          nameOf(options.task.ends), shape.window, shape.grouped, options.repeats),
                   lines);
}

}  // namespace railwise::tools
