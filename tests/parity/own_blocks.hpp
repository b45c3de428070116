// Trains the attention and MLP modules of host_blocks.hpp over tensor ranks and compares the results with unsharded
// runs.
#pragma once

#include <fmt/format.h>

#include "tests/host_blocks.hpp"
#include "tests/parity/own_model.hpp"
#include "tests/parity/run_result.hpp"

namespace troupe::tests {

constexpr uint64_t steps = 3;

inline models::host_batch block_batch(uint64_t step, uint32_t micro, uint32_t rank) {
  auto out = own_batch(step, micro, rank);
  return {out.input.remainder(block_vocabulary), out.target.remainder(block_vocabulary)};
}

inline settings ranks(int degree) { return {fmt::format("parallel.tensor={}", degree)}; }
inline settings stage(int n) {
  return {fmt::format("zero_optimization.stage={}", n), "zero_optimization.reduce_bucket_size=4096",
          "zero_optimization.stage3_param_persistence_threshold=0", "zero_optimization.stage3_max_reuse_distance=0"};
}

struct outcome {
  run_result trained;
  double evaluation = 0;
};

inline outcome train_own(const actors::host_model& model, const settings& set) {
  auto s = open_own(set, model);
  outcome out{result_of(*s, steps)};
  const auto loss = s->evaluate(2);
  if (!loss) throw std::runtime_error(loss.error().text);
  out.evaluation = *loss;
  return out;
}

inline double number(uint64_t bits) { return std::bit_cast<double>(bits); }

inline void check_uncut(const outcome& got, const outcome& wanted, double most) {
  for (size_t i = 0; i < steps; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    BOOST_TEST(std::abs(number(got.trained.losses[i]) / number(wanted.trained.losses[i]) - 1) <= most);
    BOOST_TEST(std::abs(number(got.trained.norms[i]) / number(wanted.trained.norms[i]) - 1) <= most);
  }
  BOOST_TEST(std::abs(got.evaluation / wanted.evaluation - 1) <= most);
  for (size_t q = 0; q < wanted.trained.weights.size(); ++q) {
    BOOST_TEST_INFO_SCOPE("q " << q);
    const auto wide = [](const std::vector<float>& x) { return std::vector<double>(x.begin(), x.end()); };
    BOOST_TEST(relative_difference(wide(got.trained.weights[q]), wide(wanted.trained.weights[q])) <=
               std::max(most, 1e-6) * 10);
  }
}

}  // namespace troupe::tests
