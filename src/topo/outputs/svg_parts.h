// The drawing as SVG elements, for the SVG and HTML outputs. Internal to outputs/, except for the style,
// which `railwise perf --timeline` uses too.
#pragma once

#include <string>
#include <string_view>

#include "base/text/printable.h"
#include "topo/outputs/drawing/drawing.h"

namespace railwise::topo {

struct SvgOptions {
  bool interactive = false;  // for the HTML page: boxes of GPUs and NICs can have the focus
  std::string title;         // title above the drawing; empty: no title
};

// The whole <svg> element. svgStyle() has the style for its classes.
std::string svgElement(const Drawing& drawing, const Graph& graph, const SvgOptions& options);

// The CSS of page/drawing.css, with two colour schemes: light, and dark if the viewer prefers it.
std::string_view svgStyle();

using railwise::escapeXml;

}  // namespace railwise::topo
