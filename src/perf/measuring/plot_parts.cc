#include "perf/measuring/plot_parts.h"

#include "cli/options/message.h"
#include "topo/outputs/svg_parts.h"

namespace railwise::tools {

std::string plotBegin(const PlotFrame& frame, const std::string& title, const std::string& subtitle) {
  return textOf(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"rw\" viewBox=\"0 0 %.0f %.0f\" "
             "width=\"%.0f\" height=\"%.0f\" role=\"img\" aria-label=\"%s\">\n",
             frame.width, frame.height, frame.width, frame.height, topo::escapeXml(title).c_str()) +
         "<style>" + std::string(topo::svgStyle()) + "</style>\n" +
         "<rect width=\"100%\" height=\"100%\" fill=\"var(--bg)\"/>\n" +
         plotText("head", "start", frame.left, 26, title) +
         plotText("sub", "start", frame.left, 44, subtitle);
}

std::string plotText(const char* style, const char* anchor, double x, double y, const std::string& words) {
  return textOf("<text class=\"%s\" style=\"text-anchor:%s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", style,
                anchor, x, y, topo::escapeXml(words).c_str());
}

std::string plotStraight(double x1, double y1, double x2, double y2) {
  return textOf("<path class=\"frame\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", x1, y1, x2, y2);
}

}  // namespace railwise::tools
