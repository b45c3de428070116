// Arguments of a segment's forward: parameters, batch, names of dropout masks, and the slot through which backward
// finds the gradient sink.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "models/segment/parameter_binding.hpp"
#include "models/segment/segment.hpp"
#include "models/segment/weight.hpp"
#include "models/table/tp_split.hpp"

namespace troupe::models {

/// A function that computes rows [first, first + count) of an output, each row by itself, without autograd history.
using row_function = std::function<void(int64_t first, int64_t count)>;

/// The functions that compute the remaining rows of a segment's output, if the output is computed and exchanged in
/// pieces of rows: the product that ends the segment, and additions to its rows.
class row_work {
 public:
  /// Calls `f` for the first `count` of `rows` rows, and stores `f` so that `run` can compute the other rows later.
  void add(int64_t rows, int64_t count, row_function f) {
    f(0, std::min(rows, count));
    later_.push_back({rows, std::move(f)});
  }
  /// Calls all stored functions in order for rows [first, first + count).
  void run(int64_t first, int64_t count) const {
    for (const entry& e : later_)
      if (const int64_t end = std::min(e.rows, first + count); first < end) e.f(first, end - first);
  }
  /// Frees the stored functions and the tensors that they refer to; no more rows may be requested.
  void end() { later_.clear(); }

 private:
  struct entry {
    int64_t rows = 0;
    row_function f;
  };
  std::vector<entry> later_;
};

/// Arguments of one forward of a segment. The object exists only during that forward; the functions themselves keep
/// what their backward needs.
class segment_scope {
 public:
  /// Makes the scope of segment `segment` of unit `unit`, counted from the model's first unit, which is unit
  /// `first_unit` of the table.
  segment_scope(const core::model_table& table, const parameter_binding& parameters, const micro_batch& batch,
                uint32_t unit, uint32_t segment, const model_place& place = {}, uint32_t first_unit = 0);

  /// Returns the segment's next layer, which must be of `kind`, in the order of the table; layers without parameters
  /// are skipped.
  const core::layer_info& next(core::layer_kind kind);
  [[nodiscard]] weight parameter(uint32_t id) const;
  /// Returns how the input of `layer`, a layer of the table, is quantised; nullopt if it is not.
  [[nodiscard]] std::optional<input_rounding> input_grid(const core::layer_info& layer) const;

  [[nodiscard]] const micro_batch& batch() const { return batch_; }
  [[nodiscard]] const std::shared_ptr<sink_slot>& slot() const { return slot_; }
  [[nodiscard]] uint32_t unit() const { return unit_; }
  /// True if this rank adds what only one rank may add if tensor-parallel ranks compute summands of the segment's
  /// output: the residual path and the biases of the last layer. True if the output is not such a sum.
  [[nodiscard]] bool leads() const { return leads_; }
  /// True if the segment's output is computed in pieces of rows; `later_rows` then has the functions that compute the
  /// later pieces.
  [[nodiscard]] bool gives_pieces() const { return batch_.first_rows > 0; }
  [[nodiscard]] const std::shared_ptr<row_work>& later_rows() const { return later_rows_; }
  /// Calls `f` for the rows that forward computes now, and stores it for the later pieces of rows, if there are any.
  void by_rows(int64_t rows, row_function f) const {
    later_rows_->add(rows, static_cast<int64_t>(batch_.first_rows), std::move(f));
  }
  /// Returns which columns (token positions) of each sample this rank's tensors have; only inside attention tensors
  /// have all columns.
  [[nodiscard]] const core::column_set& columns() const { return columns_; }
  /// True if this rank has only some columns of each sample, and other ranks of its sequence group have the further
  /// columns.
  [[nodiscard]] bool shares_columns() const { return columns_.count() != static_cast<int64_t>(batch_.columns); }

 private:
  const core::model_table& table_;
  const parameter_binding& parameters_;
  const micro_batch& batch_;
  std::span<const core::layer_info> layers_;  // layers of the segment that `next` has not returned yet
  uint32_t unit_;
  bool leads_;
  core::column_set columns_;
  std::shared_ptr<sink_slot> slot_ = std::make_shared<sink_slot>();
  std::shared_ptr<row_work> later_rows_;  // functions for later pieces of rows; null if forward computes all rows
};

/// Use of the memory of a segment's last input tensor after its forward. `stays`: it is valid until backward, so
/// forward may save it as it is. `is_copied`: forward has copied what it needs, and the tensor's memory is freed.
enum class last_input : uint8_t { stays, is_copied };

/// Runs `forward` on `input`, detached, and returns a segment_run that holds the autograd graph for one backward;
/// outside of training it holds no graph.
std::unique_ptr<segment_run> run_segment(segment_scope& scope, const values& input,
                                         const std::function<values(const values&)>& forward,
                                         last_input last = last_input::stays);

}  // namespace troupe::models
