// Fills a rank's parameters and master weights before the first step: drawn from the seed, read from a Hugging Face
// folder, or copied from a host program's own modules. Every rank fills only the elements that it holds; the same
// element gets the same bits on all ranks.
#pragma once

#include <functional>

#include "actors/memory/rank_memory.hpp"
#include "job/blueprint.hpp"

namespace troupe::models {
class prepared_modules;
}

namespace troupe::actors {

/// Callbacks that fill_initial_weights() and fill_initial_moments() call every few milliseconds on the thread that
/// fills. Either may be empty.
struct fill_watch {
  std::function<bool()> wants_end{};         ///< returning true ends the filling with error_kind::stopped
  std::function<void(double share)> done{};  ///< receives the share of elements that are filled, from 0 to 1
};

/// Selects the parameters to fill: all, or only those of the distillation teacher, which are not in checkpoints of the
/// model.
enum class filled_values : uint8_t { all, of_teacher };

/// Fills the parameters and master weights that the rank holds. `own`: the host program's own model, whose values
/// are copied; null: the values of the configuration's model, from its folder or drawn from the seed.
core::result<void> fill_initial_weights(const job::blueprint& b, rank_memory& memory,
                                        models::prepared_modules* own = nullptr, const fill_watch& watch = {},
                                        filled_values of = filled_values::all);

/// Sets the optimizer moments of a parameter to their initial values, also in memory that holds other values. Does not
/// change the average of its weights.
core::result<void> reset_moments(const job::optimizer_groups& groups, rank_memory& memory, uint32_t parameter);

/// Sets the average of a parameter's weights to its master weights. Does nothing if the run keeps no average.
core::result<void> begin_average(const job::optimizer_groups& groups, rank_memory& memory, uint32_t parameter);

/// Fills the optimizer moments that do not start at zero; all others are expected to be zero already, as in new memory.
core::result<void> fill_initial_moments(const job::optimizer_groups& groups, rank_memory& memory,
                                        const fill_watch& watch = {});

}  // namespace troupe::actors
