// The drawing as SVG elements, for svg and html. Internal to outputs/, but for the style, which the plot of
// `railwise bench` shares.
#pragma once

#include <string>
#include <string_view>

#include "topo/outputs/drawing/drawing.h"

namespace railwise::topo {

struct SvgOptions {
  bool interactive = false;  // for the page: boxes of GPUs and NICs take the focus
  std::string title;         // above the drawing; empty: none
};

// The whole <svg> element; its classes are styled by svgStyle().
std::string svgElement(const Drawing& drawing, const Graph& graph, const SvgOptions& options);

// CSS with both colour schemes: light, and dark where the viewer prefers it.
std::string_view svgStyle();

// For text and for attribute values in double quotes; what XML cannot hold becomes U+FFFD.
std::string escapeXml(std::string_view text);

}  // namespace railwise::topo
