// Draws pictures of a report as inline SVG: a curve over steps, the lanes of one step. Pure functions that return text;
// colours are classes that report_style.hpp defines for light and dark.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "telemetry/report/thinned_series.hpp"
#include "telemetry/spans.hpp"

namespace troupe::telemetry {

struct line_chart {
  std::string title;
  std::string unit;                        ///< unit of the values, printed in the heading; may be empty
  const thinned_series* main = nullptr;    ///< the curve to draw; its x values are numbers of steps
  const thinned_series* points = nullptr;  ///< a second, sparse curve on the axes of `main`; may be null
  std::string points_name;
  bool from_zero = false;  ///< true: the y axis begins at 0
  bool smooth = false;     ///< true: a running mean is drawn over the values, if there are enough of them
};

/// Returns a figure with its heading; escapes all text.
std::string as_svg(const line_chart& c);

/// Maximum number of ranks, and of bars for instructions, that lanes_svg() draws. Bars that would be narrower than the
/// picture's width divided by the bars per lane are merged with the bar before them.
inline constexpr size_t drawn_ranks_limit = 8;
inline constexpr size_t drawn_spans_limit = 4000;

/// Draws the lanes of one step over time, with a legend. A collective is drawn from the moment when its last member has
/// posted it.
std::string lanes_svg(std::span<const rank_spans> step);

}  // namespace troupe::telemetry
