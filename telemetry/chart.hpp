// Pictures of a report as inline SVG: a curve over steps, the lanes of one step. Pure functions to text; colours are
// classes that report_style.hpp defines for light and dark.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "telemetry/spans.hpp"
#include "telemetry/thinned_series.hpp"

namespace troupe::telemetry {

struct line_chart {
  std::string title;
  std::string unit;                        ///< after the last value in the heading; may be empty
  const thinned_series* main = nullptr;    ///< x: steps
  const thinned_series* points = nullptr;  ///< a second, sparse curve on the same axes; may be null
  std::string points_name;
  bool from_zero = false;  ///< the axis begins at 0
  bool smooth = false;     ///< a running mean over the values themselves, where there are enough
};

/// A figure with its heading; text is escaped.
std::string as_svg(const line_chart& c);

/// Ranks and spans that the picture of lanes shows at most. Spans too narrow for their share are drawn as one.
inline constexpr size_t drawn_ranks_limit = 8;
inline constexpr size_t drawn_spans_limit = 4000;

/// The lanes of one step over time, collectives from when the last member had posted them; with a legend.
std::string lanes_svg(std::span<const rank_spans> step);

}  // namespace troupe::telemetry
