// Chooses which weights a configuration prunes, by which method and from which update on. Owns the choice of modules
// and its refusals; kernels/compress/weight_mask.hpp computes masks; other code creates and stores them.
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

/// Which parts of a weight pruning keeps or removes as a whole.
enum class pruned_part : uint8_t { elements, rows, heads, channels };
/// Returns "sparse_pruning", "row_pruning" ..., the name in configurations and checkpoints.
std::string_view name_of(pruned_part part);

/// A vector parameter from which elements are removed together with the rows of a pruned weight, such as the weight of
/// a norm after the pruned layer.
struct pruned_vector {
  uint32_t unit = 0, parameter = 0;
};

/// The elements of a pruned module's weight and bias that one tensor-parallel rank stores, whether the mask keeps them
/// or not: as runs, each with its offset in the rank's memory and its offset in the whole parameter.
struct pruned_share {
  std::vector<core::tp_run> weight, bias;
};

/// A module that is pruned. Its mask covers the whole weight, also if the weight is split over tensor ranks.
struct pruned_module {
  std::string module, group;  ///< name of the module, and name of its group in the configuration
  pruned_part part = pruned_part::elements;
  config::pruning_method method = config::pruning_method::l1;
  uint32_t unit = 0, weight = 0;
  /// Parameter index of the bias, from which the same rows are removed; nullopt: no bias.
  std::optional<uint32_t> bias;
  kernels::masked_matrix matrix;
  uint64_t heads = 0;        ///< number of heads, for pruned_part::heads
  uint64_t kept = 0;         ///< number of set bits in the mask, which has scores() bits
  uint64_t from_update = 0;  ///< number of applied updates before pruning begins
  /// index of the parameter that holds the mask's scores; nullopt: scores are not learned
  std::optional<uint32_t> score_parameter = std::nullopt;
  /// Weights and biases of norms among the related modules; the mask sets their elements to 0, too.
  std::vector<pruned_vector> along = {};
  std::vector<pruned_share> shares{};  ///< [tensor coordinate]: elements that the rank stores; empty: each rank has all

  /// Returns the number of bits of the mask.
  [[nodiscard]] uint64_t scores() const {
    return part == pruned_part::elements ? matrix.elements() : part == pruned_part::heads ? heads : matrix.rows;
  }
  /// Returns the number of elements of the weight or of the bias that one rank has.
  [[nodiscard]] uint64_t elements_of(uint32_t parameter) const;
  /// Returns which elements of the whole parameter tensor rank `coordinate` stores, as runs in order; empty: the rank
  /// stores the whole parameter.
  [[nodiscard]] std::span<const core::tp_run> runs_of(uint32_t parameter, uint32_t coordinate) const;
};
/// Returns the size in bytes of a mask with one bit for each of `elements` elements.
constexpr uint64_t mask_bytes_of(uint64_t elements) { return (elements + 7) / 8; }

/// Chooses the pruned modules, by unit and weight, ascending; for one weight in the order in which masks are applied:
/// elements, rows, heads. Refused (bad_input), with file, line and key: what choose_compression refuses of every
/// technique, and a ratio that keeps all or nothing of the chosen parts. `table` is the table of the undivided
/// model; pruned_module::shares stays empty.
core::result<std::vector<pruned_module>> choose_pruning(const config::job_config& config,
                                                        const core::model_table& table);

}  // namespace troupe::job
