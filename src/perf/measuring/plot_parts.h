// Pieces of the drawings (SVG) that `railwise bench --plot` and `railwise perf --timeline` make, in the style
// of the drawn machines. Lengths are CSS pixels.
#pragma once

#include <string>

namespace railwise::tools {

struct PlotFrame {
  double width, height;
  double left, right, top, bottom;  // margins around the plot itself
};

// The beginning of a file, with a title and a line below it; it ends with "</svg>\n".
std::string plotBegin(const PlotFrame& frame, const std::string& title, const std::string& subtitle);
// `style`: a class of topo::svgStyle(); `anchor`: start, middle or end.
std::string plotText(const char* style, const char* anchor, double x, double y, const std::string& words);
// A line of the frame or grid.
std::string plotStraight(double x1, double y1, double x2, double y2);

}  // namespace railwise::tools
