// Which weights a configuration prunes, by which method and from which update on. Owns the choice of modules and its
// refusals; what a mask is made of is kernels/compress/weight_mask.hpp's arithmetic, and who makes and keeps it is not
// decided here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "core/model_table.hpp"
#include "core/tp_slices.hpp"
#include "kernels/compress/weight_mask.hpp"

namespace troupe::job {

/// What of a weight stays or goes as one.
enum class pruned_part : uint8_t { elements, rows, heads, channels };
/// "sparse_pruning", "row_pruning" ...: as configurations and checkpoints call it.
std::string_view name_of(pruned_part part);

/// A vector that loses elements with the rows of a weight: a norm's behind it.
struct pruned_vector {
  uint32_t unit = 0, parameter = 0;
};

/// What a tensor rank has of a pruned weight, and of a bias that loses rows with it: the elements of its shares, in
/// order, and where they lie in the whole ones.
struct pruned_share {
  std::vector<core::tp_run> weight, bias;
};

/// A module that is pruned. Its mask is that of the whole weight.
struct pruned_module {
  std::string module, group;  ///< their names
  pruned_part part = pruned_part::elements;
  config::pruning_method method = config::pruning_method::l1;
  uint32_t unit = 0, weight = 0;
  std::optional<uint32_t> bias;  ///< that loses rows, too
  kernels::masked_matrix matrix;
  uint64_t heads = 0;        ///< of pruned_part::heads
  uint64_t kept = 0;         ///< of scores()
  uint64_t from_update = 0;  ///< so many updates have been applied before it begins
  /// Where scores are learned: their parameter.
  std::optional<uint32_t> score_parameter = std::nullopt;
  /// Weights and biases of norms among its related modules: what goes is 0 behind them, too.
  std::vector<pruned_vector> along = {};
  std::vector<pruned_share> shares{};  ///< [tensor coordinate]; none: every rank has all of it

  /// Bits of its mask.
  [[nodiscard]] uint64_t scores() const {
    return part == pruned_part::elements ? matrix.elements() : part == pruned_part::heads ? heads : matrix.rows;
  }
  /// Elements that a rank has of its weight, or of its bias.
  [[nodiscard]] uint64_t elements_of(uint32_t parameter) const;
  /// Those of tensor rank `coordinate` in order; empty: it has all.
  [[nodiscard]] std::span<const core::tp_run> runs_of(uint32_t parameter, uint32_t coordinate) const;
};
/// Of a mask of so many elements.
constexpr uint64_t mask_bytes_of(uint64_t elements) { return (elements + 7) / 8; }

/// By unit and weight, ascending; of one weight in the order in which masks follow each other: elements, rows, heads.
/// Refused (bad_input), with file, line and key: what choose_compression refuses of every technique, and a ratio that
/// leaves all or nothing of what it chooses. `table` is the whole model's, and shares are not said.
core::result<std::vector<pruned_module>> choose_pruning(const config::job_config& config,
                                                        const core::model_table& table);

}  // namespace troupe::job
