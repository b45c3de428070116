// Chooses which modules a configuration compresses, how, and from which update on. Owns the choice of modules by
// patterns of names, and its refusals; kernels/compress/compressed_weight.hpp does the arithmetic, and a plan contains
// only which parameters a unit reads compressed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "core/model_table.hpp"
#include "job/compression/bit_schedule.hpp"
#include "job/compression/pruning.hpp"
#include "job/tensor/tensor.hpp"
#include "kernels/compress/compressed_share.hpp"
#include "kernels/compress/compressed_weight.hpp"
#include "plan/options.hpp"

namespace troupe::job {

/// A module whose weight is quantised before the module's unit multiplies with it.
struct compressed_module {
  std::string module, group;  ///< name of the module, and name of its group in the configuration
  plan::compressed_use use;
  kernels::weight_recipe recipe;
  uint64_t from_update = 0;                     ///< number of applied updates before compression begins
  std::optional<bit_schedule> bits{};           ///< schedule of decreasing bits (MoQ); nullopt: constant
  /// [tensor coordinate]: the part of the whole matrix that the rank stores; empty: the weight is not split.
  std::vector<kernels::matrix_share> shares{};

  /// Returns how the weight is compressed after `updates` updates; `seed` and `parameter` determine the noise of
  /// stochastic rounding.
  [[nodiscard]] kernels::weight_moment after(uint64_t updates, uint64_t seed, uint32_t parameter) const;
};

/// A linear layer whose input is quantised, row by row, before it is multiplied.
struct compressed_layer {
  std::string module, group;
  plan::compressed_input use;
  kernels::quantiser grid;
  uint64_t from_update = 0;  ///< number of applied updates before compression begins
  bool is_static = false;    ///< true: one learned range for all tokens; false: each row has its own range
};

/// Everything that a configuration compresses, and when.
struct chosen_compression {
  std::vector<compressed_module> modules;  ///< modules with compressed weights, sorted by unit and parameter
  std::vector<compressed_layer> layers;    ///< layers with compressed inputs, in the order of the table
  std::vector<pruned_module> pruned;       ///< pruned modules, sorted by unit and weight

  /// Returns the numbers of updates at which the set of compressed modules changes, ascending; 0 is always the first.
  [[nodiscard]] std::vector<uint64_t> phases() const;
  /// Returns the compression options of a plan for steps after `updates` updates: the techniques that have begun by
  /// then.
  [[nodiscard]] plan::compression_options after(uint64_t updates) const;
  /// Returns the module whose weight is `parameter` of `unit`; null if the unit reads the parameter uncompressed.
  [[nodiscard]] const compressed_module* module_of(uint32_t unit, uint32_t parameter) const;
  /// Returns how layer `layer` compresses its input; the layer must be one of `layers`.
  [[nodiscard]] const compressed_layer& layer_of(uint32_t layer) const;
  /// Updates the static activation ranges after an optimizer update: `ranges` has one entry for each of `layers`;
  /// `seen` has the value ranges that the step measured, one for each layer with a static range.
  void follow(std::span<const kernels::value_range<double>> seen, std::vector<kernels::activation_range>& ranges) const;
};

/// Chooses the modules of `table` that the patterns of `compression_training` match: linear layers, embeddings and a
/// host's convolutions, by a match anywhere in the name. An embedding has a group for each row. Refused (bad_input),
/// with file, line and key: an invalid pattern, a group that matches no module, a module in two groups, groups that do
/// not divide a matrix, and everything that cannot be combined with compression yet. `tensor`: how `table`, a rank's
/// table, is split out of the whole model; a rank's part of a matrix uses the groups of the whole matrix. `rows`:
/// tokens of a micro-batch on a rank; nullopt: a host's own modules, which compress no inputs.
core::result<chosen_compression> choose_compression(const config::job_config& config, const core::model_table& table,
                                                    const chosen_tensor& tensor, std::optional<uint64_t> rows);

}  // namespace troupe::job
