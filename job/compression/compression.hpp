// Which modules a configuration compresses, how, and from which update on. Owns the choice out of patterns and its
// refusals; the arithmetic is kernels/compress/compressed_weight.hpp's, and a plan knows only which parameters a unit
// reads compressed.
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

/// A module whose weight its unit reads compressed.
struct compressed_module {
  std::string module, group;  ///< their names
  plan::compressed_use use;
  kernels::weight_recipe recipe;
  uint64_t from_update = 0;                     ///< so many updates have been applied before it begins
  std::optional<bit_schedule> bits{};           ///< of weights that lose their bits one by one
  std::vector<kernels::matrix_share> shares{};  ///< [tensor coordinate]; none: every rank has all of it

  /// What is made of the weight after `updates`; `seed` and `parameter` are keys of the noise.
  [[nodiscard]] kernels::weight_moment after(uint64_t updates, uint64_t seed, uint32_t parameter) const;
};

/// A linear layer that multiplies with its input compressed, row by row.
struct compressed_layer {
  std::string module, group;
  plan::compressed_input use;
  kernels::quantiser grid;
  uint64_t from_update = 0;
  bool is_static = false;  ///< one range for all tokens, learned
};

/// All that a configuration compresses, and when.
struct chosen_compression {
  std::vector<compressed_module> modules;  ///< by unit and parameter, ascending
  std::vector<compressed_layer> layers;    ///< in the order of the table
  std::vector<pruned_module> pruned;       ///< by unit and weight, ascending

  /// Updates at which what is compressed changes, ascending; always from 0 on.
  [[nodiscard]] std::vector<uint64_t> phases() const;
  /// What a plan needs to know of those that have begun after `updates`.
  [[nodiscard]] plan::compression_options after(uint64_t updates) const;
  /// Null where the unit reads the parameter as it is.
  [[nodiscard]] const compressed_module* module_of(uint32_t unit, uint32_t parameter) const;
  /// What layer `layer` makes of its input; it is one of `layers`.
  [[nodiscard]] const compressed_layer& layer_of(uint32_t layer) const;
  /// Static ranges, [layer], after an update whose step saw `seen`, [calibrated layer].
  void follow(std::span<const kernels::value_range<double>> seen, std::vector<kernels::activation_range>& ranges) const;
};

/// The modules of `table` that the patterns of `compression_training` choose: its linear layers, embeddings and a
/// host's convolutions by name, anywhere in it. An embedding has a group for each row. Refused (bad_input), with file,
/// line and key: a pattern that is none, a group that finds no module, a module in two groups, groups that do not
/// divide a matrix, and what compression does not go together with yet. `tensor`: how `table`, a rank's, is cut out of
/// the whole model, whose groups a share's are. `rows`: tokens of a micro-batch on a rank; none: a host's own modules,
/// whose inputs are their own.
core::result<chosen_compression> choose_compression(const config::job_config& config, const core::model_table& table,
                                                    const chosen_tensor& tensor, std::optional<uint64_t> rows);

}  // namespace troupe::job
