// A forward pass of many windows through a model, one unit at a time: all windows pass a segment before the next
// segment's weights are read. Optionally a second pass runs the original model. Owns the order of windows, which the
// bits of all sums depend on; leaves the changes of a unit's weights to unit_methods.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"
#include "models/compress/hidden_windows.hpp"
#include "models/compress/input_statistics.hpp"
#include "models/compress/unit_weights.hpp"
#include "models/families/language_model.hpp"
#include "models/segment/segment.hpp"

namespace troupe::models {

/// Tokens that pass a segment together, in whole windows; a longer window passes alone. A different number changes
/// bits.
inline constexpr uint64_t walked_tokens = 1024;

/// Windows of `columns` + 1 tokens, one after another; the last token of a window is only a target.
struct token_windows {
  std::vector<int64_t> tokens;
  uint64_t columns = 0;
  [[nodiscard]] uint64_t count() const { return columns == 0 ? 0 : tokens.size() / (columns + 1); }
};

/// Called between windows; returning false ends the walk with error_kind::stopped.
using go_on_function = std::function<bool()>;

/// Windows that pass a segment together.
struct window_range {
  uint64_t first = 0, rows = 0;
};

/// Selects the hidden states of one of the two forward passes: `original`: the pass with the original weights;
/// `current`: the pass with the weights as they are now, some of them changed already.
enum class walk_stream : uint8_t { current, original };

/// Returns the most bytes of host memory that a unit_walk occupies: a unit's weights, the windows that are computed
/// together, and, if `fits_weights`, a method's data about one weight and the sums of its inputs. An estimate from the
/// table, of memory allocated for elements.
uint64_t walk_bytes(const model_spec& spec, uint64_t columns, bool fits_weights);

class unit_walk {
 public:
  /// Opens a unit_walk. `source` and `windows` must outlive it; hidden states are stored in the existing `folder`.
  static core::result<std::unique_ptr<unit_walk>> open(const model_spec& spec, const checkpoint::tensor_source& source,
                                                       const token_windows& windows,
                                                       const std::filesystem::path& folder, go_on_function go_on);

  /// Makes all later forward passes round the inputs of linear layers before the head to 8 bits, each row to a grid of
  /// its own, as a program does that runs weights with codes of activations.
  void round_inputs();

  /// Returns the number of segments before the head, which are computed in order.
  [[nodiscard]] uint64_t steps() const { return places_.size(); }
  [[nodiscard]] std::pair<uint32_t, uint32_t> place(uint64_t step) const { return places_[step]; }
  [[nodiscard]] uint32_t head() const { return static_cast<uint32_t>(table().units.size() - 1); }
  [[nodiscard]] const core::model_table& table() const { return model_->table(); }
  [[nodiscard]] unit_weights& weights() { return *weights_; }

  /// Calls f for all windows, in order, once for each range of windows that pass together.
  core::result<void> each(const std::function<core::result<void>(window_range)>& f) const;
  /// Returns the output of step `step`, whose unit must be loaded, for these windows; for the head, which is the last
  /// step, their mean loss.
  core::result<at::Tensor> forward(uint64_t step, window_range windows, walk_stream of, input_watch* watch) const;
  /// Returns the input of step `step`, (windows, columns, width); undefined for the first step.
  core::result<at::Tensor> input_of(uint64_t step, window_range windows, walk_stream of) const;
  /// Stores `out` as the output of step `step`, which is the input of the next one.
  core::result<void> keep(uint64_t step, window_range windows, walk_stream of, const at::Tensor& out);
  /// Makes the output of `step` durable: after the call it survives a crash of the machine.
  [[nodiscard]] core::result<void> sync(uint64_t step) const;
  /// Returns the digest of all hidden states that enter step `step`; empty for the first step, which has none.
  [[nodiscard]] core::result<std::string> digest(uint64_t step, walk_stream of) const;

  /// Computes the forward pass of segment number `step` for all windows; `watch` receives the inputs of its weights. If
  /// `writes`, stores the output, which is the input of the next segment.
  core::result<void> run(uint64_t step, walk_stream of, input_statistics* watch, bool writes);
  /// Computes the forward pass of the whole model for all windows, and returns the mean cross-entropy per token.
  core::result<double> loss();

 private:
  unit_walk(const token_windows& windows, std::filesystem::path folder, go_on_function go_on)
      : windows_(windows), folder_(std::move(folder)), go_on_(std::move(go_on)) {}
  [[nodiscard]] micro_batch batch_of(window_range windows) const;
  /// Returns the files of a stream's hidden states, opened at the first use: most objects use one stream.
  core::result<const hidden_windows*> hidden(walk_stream of) const;

  const token_windows& windows_;
  std::filesystem::path folder_;
  go_on_function go_on_;
  uint64_t width_ = 0;
  mutable std::array<std::optional<hidden_windows>, 2> hidden_;  ///< files of hidden states, by walk_stream
  std::vector<uint64_t> samples_;
  std::vector<std::pair<uint32_t, uint32_t>> places_;
  std::vector<std::optional<input_rounding>> input_grids_;  ///< [layer of the table]; empty: no input is rounded
  std::unique_ptr<language_model> model_;
  std::unique_ptr<parameter_binding> binding_;
  std::unique_ptr<unit_weights> weights_;
};

}  // namespace troupe::models
