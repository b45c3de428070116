// Collects the complete result of a training run and compares two results bit by bit.
#pragma once

#include <algorithm>
#include <numeric>

#include "actors/session/state_access.hpp"
#include "tests/small_job.hpp"

namespace troupe::tests {

struct run_result {
  std::vector<uint64_t> losses, norms;  // loss and gradient norm of each step, as the bits of doubles
  // Values of each parameter and its two moments, by parameter index.
  std::vector<std::vector<float>> weights, first, second;
  std::vector<std::vector<double>> gradients;  // of the first step, by parameter index; empty unless they are asked for
  std::vector<std::string> names;              // of parameters
  uint64_t gathers = 0, releases = 0, reductions = 0, skipped = 0;
  uint64_t buckets = 0, sub_groups = 0, peak_live = 0, model = 0;
  core::dtype parameter = core::dtype::f32;
  plan::memory_table memory;
};

enum class first_gradients { unread, read };

inline run_result result_of(actors::session& s, uint64_t steps, first_gradients gradients = first_gradients::unread) {
  run_result out;
  const auto n = static_cast<uint32_t>(s.table().parameters.size());
  for (uint64_t i = 0; i < steps; ++i) {
    const auto r = step_of(s);
    out.losses.push_back(std::bit_cast<uint64_t>(r.loss));
    out.norms.push_back(std::bit_cast<uint64_t>(r.grad_norm));
    out.gathers += r.lanes.gathers;
    out.releases += r.lanes.releases;
    out.reductions += r.lanes.reductions;
    out.skipped += r.skipped;
    if (i > 0 || gradients == first_gradients::unread) continue;
    for (uint32_t q = 0; q < n; ++q) out.gradients.push_back(gradient_of(s, q));
  }
  for (uint32_t q = 0; q < n; ++q) {
    out.names.push_back(s.table().parameters[q].name);
    out.weights.push_back(parameter_of(s, q));
    out.first.push_back(moment_of(s, q, 0));
    out.second.push_back(moment_of(s, q, 1));
  }
  const auto& p = s.training_plan(0);
  out.buckets = p.layout->buckets.size();
  out.sub_groups = p.sub_groups.size();
  out.peak_live = p.peak_live_elements;
  out.parameter = p.options().types.parameter;
  out.model = s.table().numel();
  out.memory = s.memory()[0].resident;
  return out;
}

inline run_result train(const small_job& job, const settings& set, uint64_t steps,
                        first_gradients gradients = first_gradients::unread) {
  auto s = job.open(set);
  return result_of(*s, steps, gradients);
}

inline bool same_bits(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [](float s, float t) { return std::bit_cast<uint32_t>(s) == std::bit_cast<uint32_t>(t); });
  });
}

inline std::string text_of(const settings& set) {
  return std::accumulate(set.begin(), set.end(), std::string(),
                         [](const std::string& a, const std::string& b) { return a + (a.empty() ? "" : " ") + b; });
}

inline void check_same(const run_result& got, const run_result& wanted) {
  BOOST_TEST(got.losses == wanted.losses, boost::test_tools::per_element());
  BOOST_TEST(got.norms == wanted.norms, boost::test_tools::per_element());
  BOOST_TEST(same_bits(got.weights, wanted.weights), "weights differ");
  BOOST_TEST(same_bits(got.first, wanted.first), "first moments differ");
  BOOST_TEST(same_bits(got.second, wanted.second), "second moments differ");
}

/// Checks that losses and norms are equal up to a relative tolerance.
inline void check_near(const run_result& got, const run_result& wanted, double tolerance) {
  const auto number = [](uint64_t bits) { return std::bit_cast<double>(bits); };
  for (size_t i = 0; i < wanted.losses.size(); ++i) {
    BOOST_TEST(std::abs(number(got.losses[i]) / number(wanted.losses[i]) - 1) <= tolerance,
               "loss of step " << i << ": " << number(got.losses[i]) / number(wanted.losses[i]) - 1);
    BOOST_TEST(std::abs(number(got.norms[i]) / number(wanted.norms[i]) - 1) <= tolerance,
               "norm of step " << i << ": " << number(got.norms[i]) / number(wanted.norms[i]) - 1);
  }
}

/// True if the gradients are 0 but for rounding errors, as those of a bias of keys without rotary positions are.
inline bool are_noise(const std::vector<double>& one, const std::vector<double>& other) {
  const auto is_small = [](double x) { return std::abs(x) < 1e-8; };
  return std::ranges::all_of(one, is_small) && std::ranges::all_of(other, is_small);
}

/// Checks that the gradients of the first step differ by at most `most`, relative to the norm of each parameter's
/// gradient.
inline void check_gradients(const run_result& got, const run_result& wanted, double most) {
  BOOST_TEST_REQUIRE(!wanted.gradients.empty());
  BOOST_TEST_REQUIRE(got.gradients.size() == wanted.gradients.size());
  for (size_t q = 0; q < wanted.gradients.size(); ++q) {
    if (are_noise(got.gradients[q], wanted.gradients[q])) continue;
    const double difference = relative_difference(got.gradients[q], wanted.gradients[q]);
    BOOST_TEST(difference <= most, wanted.names[q] << ": " << difference);
  }
}

}  // namespace troupe::tests
