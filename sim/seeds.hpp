// Owns how a test tries many seeds of a world, and how one of them is replayed: the variables TROUPE_SEED (only this
// seed) and TROUPE_SEEDS (this many) replace the test's own number.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "sim/answer.hpp"

namespace troupe::sim {

/// Returns the first seed to try and the one behind the last: from 0, as many as `usual` or TROUPE_SEEDS says; only
/// TROUPE_SEED if it is set. Throws world_error for a variable that is no number.
std::pair<uint64_t, uint64_t> seeds_to_try(uint64_t usual);

/// Returns the command that replays a seed which for_seeds() tries at the moment in this thread, such as `TROUPE_SEED=7
/// ./schedule_test`; empty if for_seeds() does not try this seed.
std::string replay_command(uint64_t seed);

/// Marks a seed as tried by the current thread while the object exists.
class seed_scope {
 public:
  explicit seed_scope(uint64_t seed);
  ~seed_scope();
  seed_scope(const seed_scope&) = delete;
  seed_scope& operator=(const seed_scope&) = delete;
};

/// Returns the answer for one seed: `holds` with a text of its own, or the given verdict.
verdict verdict_of_seed(uint64_t seed, bool holds);
inline verdict verdict_of_seed(uint64_t /*seed*/, const verdict& v) { return v; }

/// Calls `check(seed)` for seeds_to_try(usual). If `check` returns a verdict or a bool, ends at the first no and
/// returns it, else returns yes. If `check` returns nothing, because it tests by itself, calls it for all seeds.
template <class Check>
auto for_seeds(uint64_t usual, Check&& check) {
  const auto range = seeds_to_try(usual);
  if constexpr (std::is_void_v<std::invoke_result_t<Check&, uint64_t>>) {
    for (uint64_t seed = range.first; seed < range.second; ++seed) {
      const seed_scope tried(seed);
      check(seed);
    }
  } else {
    for (uint64_t seed = range.first; seed < range.second; ++seed) {
      const seed_scope tried(seed);
      if (verdict v = verdict_of_seed(seed, check(seed)); !v) return v;
    }
    return verdict(true, "all of " + std::to_string(range.second - range.first) + " seeds");
  }
}

}  // namespace troupe::sim
