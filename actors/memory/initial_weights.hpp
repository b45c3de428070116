// Fills a rank's parameters and masters before the first step: drawn from the seed, read from a Hugging Face folder, or
// taken from a host's own modules.
// Every rank fills only the elements it holds; the same element gets the same bits on all ranks.
#pragma once

#include <functional>

#include "actors/memory/rank_memory.hpp"
#include "job/blueprint.hpp"

namespace troupe::models {
class prepared_modules;
}

namespace troupe::actors {

/// Callbacks every few milliseconds, on the thread that fills. Both may be empty.
struct fill_watch {
  std::function<bool()> wants_end{};         ///< true ends the filling with error_kind::stopped
  std::function<void(double share)> done{};  ///< of the elements, from 0 to 1
};

/// Of all parameters, or those that no checkpoint of the model has: its teacher's.
enum class filled_values : uint8_t { all, of_teacher };

/// `own`: the source of a host's own model's values; null: the configuration's model.
core::result<void> fill_initial_weights(const job::blueprint& b, rank_memory& memory,
                                        models::prepared_modules* own = nullptr, const fill_watch& watch = {},
                                        filled_values of = filled_values::all);

/// Sets the moments of a parameter to their initial values, in memory that has been used.
core::result<void> reset_moments(const job::optimizer_groups& groups, rank_memory& memory, uint32_t parameter);

/// Fills moments that do not start at zero, in fresh memory, which is zeros.
core::result<void> fill_initial_moments(const job::optimizer_groups& groups, rank_memory& memory,
                                        const fill_watch& watch = {});

}  // namespace troupe::actors
