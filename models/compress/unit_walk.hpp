// A forward pass of many windows of text through a model that may be larger than memory. A model is a list of units,
// each a list of segments: all windows pass one segment before any window enters the next one, and only the weights of
// one unit are in memory. Optionally a second pass runs the original model next to the changed one. Owns the order of
// windows, which the bits of all sums depend on; leaves the changes of a unit's weights to unit_methods.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"
#include "models/compress/hidden_windows.hpp"
#include "models/compress/input_statistics.hpp"
#include "models/compress/unit_weights.hpp"
#include "models/families/language_model.hpp"
#include "models/segment/segment.hpp"

namespace troupe::models {

/// Calls `f`; if LibTorch throws, returns an error instead: limit if memory is exhausted, else bug.
template <class F>
auto caught(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return fail(error_kind::limit, "the machine has no memory left for a unit of the model");
  } catch (const c10::Error& e) {
    return fail(error_kind::bug, e.what_without_backtrace());
  }
}

/// Number of tokens that are computed together, rounded down to whole windows, at least one window. Another number
/// would change the order of sums and therefore their bits.
inline constexpr uint64_t walked_tokens = 1024;

/// Windows of text, `columns` + 1 tokens each, one after another; the last token of a window is only a target.
struct token_windows {
  std::vector<int64_t> tokens;
  uint64_t columns = 0;
  /// [window * columns + column]: first column of the document of this input, as micro_batch::document_start; empty:
  /// each window is one document.
  std::vector<uint32_t> document_starts{};
  [[nodiscard]] uint64_t count() const { return columns == 0 ? 0 : tokens.size() / (columns + 1); }
};

/// Function that is called between forward passes. If it returns false, the work ends with error_kind::stopped.
using go_on_function = std::function<bool()>;

/// Windows [first, first + rows) of the text, which are computed together.
struct window_range {
  uint64_t first = 0, rows = 0;
};

/// Selects the hidden states of one of the two forward passes: `original`: the pass with the original weights;
/// `current`: the pass with the weights as they are now, some of them changed already.
enum class walk_stream : uint8_t { current, original };

/// Returns an estimate of the largest number of bytes of host memory that a unit_walk occupies: one unit's weights, the
/// activations of the windows that are computed together, and, if `fits_weights`, what GPTQ needs for one weight and
/// the sums over its inputs.
uint64_t walk_bytes(const model_spec& spec, uint64_t columns, bool fits_weights);

class unit_walk {
 public:
  /// Opens a walk through the model `spec` whose weights are in `source`. `source` and `windows` must outlive it;
  /// hidden states are stored in files in the existing `folder`.
  static core::result<std::unique_ptr<unit_walk>> open(const model_spec& spec, const formats::tensor_source& source,
                                                       const token_windows& windows,
                                                       const std::filesystem::path& folder, go_on_function go_on);

  /// Makes all later forward passes round the inputs of all linear layers except the head to 8 bits, with one grid per
  /// row (token), as a program does that multiplies quantised weights with quantised activations.
  void round_inputs();

  /// Returns the number of segments before the head; step number s is the s-th of them in the order of computation.
  [[nodiscard]] uint64_t steps() const { return places_.size(); }
  [[nodiscard]] std::pair<uint32_t, uint32_t> place(uint64_t step) const { return places_[step]; }
  [[nodiscard]] uint32_t head() const { return static_cast<uint32_t>(table().units.size() - 1); }
  [[nodiscard]] const core::model_table& table() const { return model_->table(); }
  [[nodiscard]] unit_weights& weights() { return *weights_; }

  /// Calls f for all windows, in order, once for each range of windows that is computed together.
  core::result<void> each(const std::function<core::result<void>(window_range)>& f) const;
  /// Computes and returns the output of segment number `step` for these windows; its unit must be loaded. If `step` is
  /// steps(), runs the head and returns the mean loss. `watch` receives the inputs of linear layers; null: none.
  core::result<at::Tensor> forward(uint64_t step, window_range windows, walk_stream of, input_watch* watch) const;
  /// Returns the stored input of segment number `step`, (windows, columns, width); undefined for the first step, which
  /// reads tokens.
  core::result<at::Tensor> input_of(uint64_t step, window_range windows, walk_stream of) const;
  /// Stores `out` as the output of segment number `step` for these windows; it is the input of the next one.
  core::result<void> keep(uint64_t step, window_range windows, walk_stream of, const at::Tensor& out);
  /// Flushes the stored output of segment number `step` to the disk, so that it survives a crash of the machine.
  [[nodiscard]] core::result<void> sync(uint64_t step) const;
  /// Returns the digest of all stored hidden states that enter segment number `step`; empty for the first step, which
  /// has none.
  [[nodiscard]] core::result<std::string> digest(uint64_t step, walk_stream of) const;

  /// Computes segment number `step` for all windows; `watch` receives the inputs of linear layers. If `writes`, stores
  /// the output, which is the input of the next segment.
  core::result<void> run(uint64_t step, walk_stream of, input_statistics* watch, bool writes);
  /// Computes the forward pass of the whole model for all windows, and returns the mean cross-entropy per token.
  core::result<double> loss();
  /// Computes the forward pass of the whole model for all windows, and returns, [window * columns + column], the
  /// logarithm of the probability that the model gives to token column + 1 of the window. The tokens must be below the
  /// model's vocabulary.
  core::result<std::vector<float>> log_probabilities();

 private:
  /// Computes all segments before the head for all windows, and loads the head's weights.
  core::result<void> run_to_head();
  /// Returns the logits of these windows, (windows * columns, vocabulary); the head must be loaded.
  core::result<at::Tensor> logits_of(window_range windows) const;
  unit_walk(const token_windows& windows, std::filesystem::path folder, go_on_function go_on)
      : windows_(windows), folder_(std::move(folder)), go_on_(std::move(go_on)) {}
  [[nodiscard]] micro_batch batch_of(window_range windows) const;
  /// Returns the files with the hidden states of the pass `of`; they are opened at the first use, because most walks
  /// need only one pass.
  core::result<const hidden_windows*> hidden(walk_stream of) const;

  const token_windows& windows_;
  std::filesystem::path folder_;
  go_on_function go_on_;
  uint64_t width_ = 0;
  /// Files with hidden states, indexed by walk_stream; empty until their first use.
  mutable std::array<std::optional<hidden_windows>, 2> hidden_;
  std::vector<uint64_t> samples_;
  std::vector<std::pair<uint32_t, uint32_t>> places_;
  /// [layer of the table]: rounding of the layer's input; empty: no input is rounded.
  std::vector<std::optional<input_rounding>> input_grids_;
  std::unique_ptr<language_model> model_;
  std::unique_ptr<parameter_binding> binding_;
  std::unique_ptr<unit_weights> weights_;
};

}  // namespace troupe::models
