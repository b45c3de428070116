// Fills a rank's parameters and masters before the first step: drawn from the seed, read from a Hugging Face folder, or
// taken from a host's own modules. Every rank fills only the elements it holds; the same element gets the same bits on
// all ranks.
#pragma once

#include <functional>

#include "actors/memory/rank_memory.hpp"
#include "job/blueprint.hpp"

namespace troupe::models {
class prepared_modules;
}

namespace troupe::actors {

/// Callbacks that the filling of weights calls every few milliseconds, on its own thread. Both may be empty.
struct fill_watch {
  std::function<bool()> wants_end{};         ///< returning true ends the filling with error_kind::stopped
  std::function<void(double share)> done{};  ///< receives the share of elements that are filled, from 0 to 1
};

/// The parameters to fill: all, or only the teacher's, which no checkpoint of the model has.
enum class filled_values : uint8_t { all, of_teacher };

/// Fills the rank's parameters and masters. `own`: the source of values of a host's own model; null: the
/// configuration's model.
core::result<void> fill_initial_weights(const job::blueprint& b, rank_memory& memory,
                                        models::prepared_modules* own = nullptr, const fill_watch& watch = {},
                                        filled_values of = filled_values::all);

/// Sets the moments of a parameter to their initial values, in memory that has been used before.
core::result<void> reset_moments(const job::optimizer_groups& groups, rank_memory& memory, uint32_t parameter);

/// Fills the moments that do not start at zero, in new memory, which is zero.
core::result<void> fill_initial_moments(const job::optimizer_groups& groups, rank_memory& memory,
                                        const fill_watch& watch = {});

}  // namespace troupe::actors
