// The inputs of a segment's forward: parameters, batch, dropout keys, and the slot that backward fills.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "models/segment/parameter_binding.hpp"
#include "models/segment/row_work.hpp"
#include "models/segment/segment.hpp"
#include "models/segment/weight.hpp"
#include "models/table/tp_split.hpp"

namespace troupe::models {

/// The inputs of one forward, for whose duration it lives; the functions themselves keep what backward needs.
class segment_scope {
 public:
  /// Makes the scope. `unit` is counted from the model's first unit, which is unit `first_unit` of the table.
  segment_scope(const core::model_table& table, const parameter_binding& parameters, const micro_batch& batch,
                uint32_t unit, uint32_t segment, const model_place& place = {}, uint32_t first_unit = 0);

  /// Returns the segment's next layer of `kind`, in the order of the table; layers without parameters may be skipped.
  const core::layer_info& next(core::layer_kind kind);
  [[nodiscard]] weight parameter(uint32_t id) const;
  /// Returns how the input of `layer`, a layer of the table, is quantised; nullopt: not at all.
  [[nodiscard]] std::optional<input_rounding> input_grid(const core::layer_info& layer) const;

  [[nodiscard]] const micro_batch& batch() const { return batch_; }
  [[nodiscard]] const std::shared_ptr<sink_slot>& slot() const { return slot_; }
  [[nodiscard]] uint32_t unit() const { return unit_; }
  /// True if this rank adds the parts of the segment's output that are not split, the residual path and the biases of
  /// the last layer, when ranks of a tensor group compute summands of the output. Always true otherwise.
  [[nodiscard]] bool leads() const { return leads_; }
  /// True if the segment's output is computed in pieces of rows: then `later_rows` has the functions that compute its
  /// rows.
  [[nodiscard]] bool gives_pieces() const { return batch_.first_rows > 0; }
  [[nodiscard]] const std::shared_ptr<row_work>& later_rows() const { return later_rows_; }
  /// Calls `f` for the rows that are computed now, and stores `f` for the rows that are computed later.
  void by_rows(int64_t rows, row_function f) const {
    later_rows_->add(rows, static_cast<int64_t>(batch_.first_rows), std::move(f));
  }
  /// Returns the columns of the batch that tensors on this rank have; inside attention they have all columns.
  [[nodiscard]] const core::column_set& columns() const { return columns_; }
  /// True if other ranks of the sequence group have other columns of the samples.
  [[nodiscard]] bool shares_columns() const { return columns_.count() != static_cast<int64_t>(batch_.columns); }

 private:
  const core::model_table& table_;
  const parameter_binding& parameters_;
  const micro_batch& batch_;
  std::span<const core::layer_info> layers_;  // layers that `next` has not returned yet
  uint32_t unit_;
  bool leads_;
  core::column_set columns_;
  std::shared_ptr<sink_slot> slot_ = std::make_shared<sink_slot>();
  std::shared_ptr<row_work> later_rows_;  // set if the output is computed in pieces of rows
};

/// Handling of a segment's last input tensor: `stays`: its memory is valid until backward, so it may be saved for
/// backward as it is; `is_copied`: `forward` has copied the data that it needs, and the tensor's bytes are freed.
enum class last_input : uint8_t { stays, is_copied };

/// Runs `forward` on `input`, detached, and keeps the graph for one backward; keeps no graph when not training.
std::unique_ptr<segment_run> run_segment(segment_scope& scope, const values& input,
                                         const std::function<values(const values&)>& forward,
                                         last_input last = last_input::stays);

}  // namespace troupe::models
