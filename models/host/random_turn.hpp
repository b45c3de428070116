// Exclusive use of Torch's default CPU generator, of which a process has only one: threads use it one after another,
// each seeded anew, so that a rank's random numbers depend on its position in the run and not on other threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <mutex>

namespace troupe::models {

/// Names one use of random numbers: the run's seed, the step, the micro-batch, the rank and the unit. The generator is
/// seeded from it.
struct random_key {
  uint64_t seed = 0, step = 0;
  /// Micro-batch, rank, and number of the unit that draws; uses outside of units have the constants below as `use`.
  uint32_t micro = 0, rank = 0, use = 0;
};
inline constexpr uint32_t drawing_a_model = 0xFFFFFFFF, drawing_a_batch = 0xFFFFFFFE,
                          drawing_an_evaluation = 0xFFFFFFFD, drawing_a_unit = 0xFFFFFFFC;

/// Reserves the generator for this thread while the object exists, seeded from the key; restores the generator's
/// previous state at the end. A thread may have at most one at a time.
class random_turn {
 public:
  explicit random_turn(const random_key& key);
  ~random_turn();
  random_turn(const random_turn&) = delete;
  random_turn& operator=(const random_turn&) = delete;

  /// True if random numbers were drawn since the object was constructed.
  [[nodiscard]] bool drew() const;

 private:
  std::unique_lock<std::mutex> turn_;
  at::Tensor before_, seeded_;  // states of the generator: before this object was made, and after it was seeded
};

}  // namespace troupe::models
