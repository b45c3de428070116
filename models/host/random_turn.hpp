// Exclusive use of Torch's default CPU generator, of which the process has one: threads use it one after another, so
// that a rank's random numbers depend on its position in the run and not on other threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <mutex>

namespace troupe::models {

/// Seed of one use of random numbers: the run's seed, the step, and the place in the model.
struct random_key {
  uint64_t seed = 0, step = 0;
  /// micro-batch, rank, and number of the unit that draws; uses outside of units have constant numbers
  uint32_t micro = 0, rank = 0, use = 0;
};
inline constexpr uint32_t drawing_a_model = 0xFFFFFFFF, drawing_a_batch = 0xFFFFFFFE,
                          drawing_an_evaluation = 0xFFFFFFFD, drawing_a_unit = 0xFFFFFFFC;

/// Holds the generator for this thread alone during its lifetime, seeded from the key; restores the generator's state
/// at the end. At most one per thread at a time.
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
  at::Tensor before_, seeded_;  // states of the generator: before this object's use, and after seeding
};

}  // namespace troupe::models
