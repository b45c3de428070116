// Owns the lanes of ranks over time as plain values that a page can draw: a row for each lane of a rank, a bar for each
// instruction, and the rule by which too many of them are thinned. Leaves the page to lanes_page.hpp. Pure.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "plan/choose/cost.hpp"
#include "telemetry/analysis/step_graph.hpp"
#include "telemetry/spans.hpp"

namespace troupe::telemetry {

/// Largest number of ranks, and of bars, in a picture that thin() has thinned.
inline constexpr size_t picture_ranks_limit = 256;
inline constexpr size_t picture_bars_limit = 200'000;

/// The text and the colour that equal bars share.
struct picture_work {
  std::string name;    ///< name of the instruction, with its place in the pipeline
  uint32_t kind = 0;   ///< index in lanes_picture::kinds
  uint64_t bytes = 0;  ///< bytes that it moves
  auto operator<=>(const picture_work&) const = default;
};

struct picture_kind {
  std::string name;
  std::string colour;  ///< name of the kind of instruction (plan/kinds.hpp) that has its colour; empty: a quiet one
};

/// An instruction on a lane. Times are nanoseconds since the picture begins. A collective is drawn from the moment when
/// its last member has posted it.
struct picture_bar {
  int64_t start_ns = 0, end_ns = 0;
  uint32_t work = 0;  ///< index in lanes_picture::works
  uint32_t more = 0;  ///< number of further instructions that thin() has merged into the bar
};

struct picture_row {
  uint32_t rank = 0;
  std::string lane;
  bool is_predicted = false;
  std::vector<picture_bar> bars;  ///< by their start
};

/// A moment that concerns all ranks: the begin of a step, or a fault.
struct picture_mark {
  int64_t at_ns = 0;
  std::string text;
  bool is_fault = false;
};

/// The result of thin(): numbers before and after it.
struct picture_thinning {
  size_t ranks = 0, drawn_ranks = 0;
  size_t instructions = 0, bars = 0;  ///< those of the drawn ranks
  int64_t merged_ns = 0;  ///< an instruction that ends within this time of its bar's start is in that bar; 0: none is
  [[nodiscard]] bool is_whole() const { return drawn_ranks == ranks && bars == instructions; }
};

class lanes_picture {
 public:
  /// Adds the lanes of ranks whose step was measured or simulated; `zero_ns` is the begin of the picture. An
  /// instruction that did not run (not_run_ns) has no bar. Lanes without instructions have no row.
  void add(std::span<const rank_spans> ranks, int64_t zero_ns, bool is_predicted);
  /// Adds the lanes of a step as a trace has it. The picture begins with the step.
  void add(const step_graph& step, bool is_predicted);
  /// Sets the text over the lanes of a rank; "rank 3" unless it is set.
  void set_title(uint32_t rank, std::string title) { titles_[rank] = std::move(title); }
  void add_mark(picture_mark m) { marks_.push_back(std::move(m)); }

  /// Leaves out ranks beyond `ranks_max`, so that the ones left are evenly spaced, and then merges short instructions
  /// with those before them until there are at most `bars_max` bars, or a row has one bar.
  picture_thinning thin(size_t ranks_max = picture_ranks_limit, size_t bars_max = picture_bars_limit);

  /// Returns the rows by rank and lane; the predicted row of a lane is above its measured one.
  [[nodiscard]] std::vector<const picture_row*> rows() const;
  [[nodiscard]] const std::vector<picture_work>& works() const { return works_; }
  [[nodiscard]] const std::vector<picture_kind>& kinds() const { return kinds_; }
  [[nodiscard]] const std::vector<picture_mark>& marks() const { return marks_; }
  [[nodiscard]] std::string title_of(uint32_t rank) const;
  /// Returns the nanoseconds at which the last bar ends; 0 if there are no bars.
  [[nodiscard]] int64_t end_ns() const;
  [[nodiscard]] size_t num_ranks() const;

 private:
  // Rank, position of the lane, its name, and 0 for the predicted row or 1 for the measured one.
  using row_key = std::tuple<uint32_t, size_t, std::string, int>;

  picture_row& row(uint32_t rank, const std::string& lane, bool is_predicted);
  uint32_t work(std::string name, const std::string& kind, std::string_view colour, uint64_t bytes);
  void sort_bars();

  std::map<row_key, picture_row> rows_;
  std::map<uint32_t, std::string> titles_;
  std::vector<picture_work> works_;
  std::map<picture_work, uint32_t> index_of_work_;
  std::vector<picture_kind> kinds_;
  std::map<std::string, uint32_t> index_of_kind_;
  std::vector<picture_mark> marks_;
};

}  // namespace troupe::telemetry
