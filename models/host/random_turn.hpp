// Torch's default CPU generator is one for the whole process. Here threads take turns at it, so that a rank's random
// numbers depend on its place in the run and not on other threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <mutex>

namespace troupe::models {

/// Identifies a sequence of random numbers.
struct random_key {
  uint64_t seed = 0, step = 0;
  uint32_t micro = 0, rank = 0, use = 0;  ///< `use`: the unit's place; other uses are below
};
inline constexpr uint32_t drawing_a_model = 0xFFFFFFFF, drawing_a_batch = 0xFFFFFFFE,
                          drawing_an_evaluation = 0xFFFFFFFD, drawing_a_unit = 0xFFFFFFFC;

/// While it lives this thread alone has the generator, seeded from the key; afterwards the generator is as it was.
/// One per thread at a time.
class random_turn {
 public:
  explicit random_turn(const random_key& key);
  ~random_turn();
  random_turn(const random_turn&) = delete;
  random_turn& operator=(const random_turn&) = delete;

  /// Whether anything was drawn so far.
  [[nodiscard]] bool drew() const;

 private:
  std::unique_lock<std::mutex> turn_;
  at::Tensor before_, seeded_;  // states
};

}  // namespace troupe::models
