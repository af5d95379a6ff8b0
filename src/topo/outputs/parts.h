// What the forms of outputs.h are made of. Internal to outputs/, but for svgStyle(), which `railwise perf
// --timeline` uses too.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/text/json.h"
#include "base/text/printable.h"
#include "topo/explain/explain.h"
#include "topo/machine/machine.h"
#include "topo/outputs/drawing/drawing.h"
#include "topo/outputs/outputs.h"
#include "topo/paths/policy.h"

namespace railwise::topo {

// The drawing as SVG elements, for the SVG and HTML outputs.

struct SvgOptions {
  bool interactive = false;  // for the HTML page: boxes of GPUs and NICs can have the focus
  std::string title;         // title above the drawing; empty: no title
};

// The whole <svg> element. svgStyle() has the style for its classes.
std::string svgElement(const Drawing& drawing, const Graph& graph, const SvgOptions& options);

// The CSS of page/drawing.css, with two colour schemes: light, and dark if the viewer prefers it.
std::string_view svgStyle();

// The constant parts of the HTML page, and its data.

// The files in page/: the style of the drawing and of the page around it, and the script. The script inserts
// text from the machine only through textContent.
std::string_view htmlStyle();
std::string_view htmlScript();
// "sha256-<base64>" for the page's content security policy, which allows only this style and this script.
std::string_view htmlStyleHash();
std::string_view htmlScriptHash();

}  // namespace railwise::topo
