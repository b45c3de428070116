// A forward pass of many windows through a model, one unit at a time: all windows pass a segment before the next
// segment's weights are read. Owns the order of windows, which the bits of all sums depend on; what is done with a
// unit's weights is unit_methods.hpp's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"
#include "models/compress/hidden_windows.hpp"
#include "models/compress/input_statistics.hpp"
#include "models/compress/unit_weights.hpp"
#include "models/families/language_model.hpp"

namespace troupe::models {

/// Tokens that pass a segment at once, in whole windows; a longer window passes alone. Part of the bits.
inline constexpr uint64_t walked_tokens = 1024;

/// Windows of `columns` + 1 tokens, one behind the other: the last ones are targets alone.
struct token_windows {
  std::vector<int64_t> tokens;
  uint64_t columns = 0;
  [[nodiscard]] uint64_t count() const { return columns == 0 ? 0 : tokens.size() / (columns + 1); }
};

/// Called between windows; false ends the walk: error_kind::stopped.
using go_on_function = std::function<bool()>;

/// Bytes of host memory that a walk takes at most: a unit's weights, the windows that pass at once, and what a method
/// holds of one weight and the sums of its inputs, where `fits_weights`. An estimate from the table, of what is
/// allocated for elements.
uint64_t walk_bytes(const model_spec& spec, uint64_t columns, bool fits_weights);

class unit_walk {
 public:
  /// `source` and `windows` outlive it; hidden states lie in `folder`, which is there.
  static core::result<std::unique_ptr<unit_walk>> open(const model_spec& spec, const checkpoint::tensor_source& source,
                                                       const token_windows& windows,
                                                       const std::filesystem::path& folder, go_on_function go_on);

  /// Segments before the head, in order.
  [[nodiscard]] uint64_t steps() const { return places_.size(); }
  [[nodiscard]] std::pair<uint32_t, uint32_t> place(uint64_t step) const { return places_[step]; }
  [[nodiscard]] const core::model_table& table() const { return model_->table(); }
  [[nodiscard]] unit_weights& weights() { return *weights_; }

  /// All windows through step `step`, whose unit is loaded. What comes out is kept for the next one where `writes`.
  core::result<void> run(uint64_t step, input_statistics* watch, bool writes);
  /// The head, which is loaded, behind the last step; mean cross-entropy a token.
  core::result<double> run_head(input_statistics* watch);
  [[nodiscard]] uint32_t head() const { return static_cast<uint32_t>(table().units.size() - 1); }
  /// All of it; mean cross-entropy a token, from the first step on.
  core::result<double> loss();

 private:
  unit_walk(const token_windows& windows, hidden_windows hidden, go_on_function go_on)
      : windows_(windows), hidden_(std::move(hidden)), go_on_(std::move(go_on)) {}
  /// Windows [first, first + rows).
  [[nodiscard]] micro_batch batch_of(uint64_t first, uint64_t rows) const;
  core::result<values> input_of(uint64_t step, uint64_t first, uint64_t rows) const;
  /// Calls f(first, rows) for all windows.
  core::result<void> each(const std::function<core::result<void>(uint64_t, uint64_t)>& f) const;

  const token_windows& windows_;
  hidden_windows hidden_;
  go_on_function go_on_;
  uint64_t width_ = 0;
  std::vector<uint64_t> samples_;
  std::vector<std::pair<uint32_t, uint32_t>> places_;
  std::unique_ptr<language_model> model_;
  std::unique_ptr<parameter_binding> binding_;
  std::unique_ptr<unit_weights> weights_;
};

}  // namespace troupe::models
