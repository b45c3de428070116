// Tests optimizer updates that are immediate for chosen columns and deferred for the others, which are updated later
// with the mean of their deferred gradients.
#include "kernels/optimizer/late_update.hpp"

#include <algorithm>

#include "tests/kernels/optimizer_runs.hpp"

namespace troupe::kernels::tests {
BOOST_AUTO_TEST_SUITE(late_update)

namespace {

constexpr uint64_t columns = 37;

const std::vector<optimizer_options> all_optimizers{adamw_options{.weight_decay = 0.1}, adagrad_options{},
                                                    lion_options{.weight_decay = 0.1}, sgd_options{.momentum = 0.9}};

optimizer_state<float> start(const optimizer_options& options, uint64_t count) {
  optimizer_state<float> out;
  const auto positive = [&](uint64_t seed) {
    auto x = awkward_floats(count, seed);
    for (auto& v : x) v = std::abs(v);
    return x;
  };
  out.master = awkward_floats(count, 1);
  for (size_t k = 0; k < moment_names(options).size(); ++k) out.moments[k] = positive(2 + k);
  out.copy = awkward_bytes(core::dtype::bf16, count, 5);
  return out;
}

/// Returns a mask that chooses every third column.
std::vector<uint8_t> some_columns() {
  std::vector<uint8_t> out(columns);
  for (uint64_t c = 0; c < columns; ++c) out[c] = c % 3 == 1 ? 1 : 0;
  return out;
}

std::vector<float> floats_of(const std::vector<std::byte>& bytes) {
  std::vector<float> out(bytes.size() / sizeof(float));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(selected_columns_get_the_bits_of_a_plain_update_and_the_others_none) {
  const optimizer_step step{.step = 3, .lr = 1e-2, .gradient_scale = 0.37F};
  const auto selected = some_columns();
  for (const auto& options : all_optimizers)
    for (const uint64_t first : {0ULL, 1024ULL})
      for (const uint64_t count : {0ULL, 5ULL, 1000ULL, 9000ULL}) {
        BOOST_TEST_INFO_SCOPE("count " << count);
        BOOST_TEST_INFO_SCOPE("first " << first);
        const auto gradient = awkward_bytes(core::dtype::f32, count, 4);
        const auto before = start(options, count);
        auto got = before, whole = before;
        std::vector<float> deferred(count, 0.5F);
        update_selected(options, step, got.piece(gradient.data(), core::dtype::f32, 0, count), {first, columns},
                        selected, deferred.data());
        update(options, step, whole.piece(gradient.data(), core::dtype::f32, 0, count));
        const auto g = floats_of(gradient);
        for (uint64_t i = 0; i < count; ++i) {
          const bool now = selected[(first + i) % columns] != 0;
          const auto& wanted = now ? whole : before;
          BOOST_REQUIRE(std::memcmp(&got.master[i], &wanted.master[i], sizeof(float)) == 0);
          for (size_t k = 0; k < moment_names(options).size(); ++k)
            BOOST_REQUIRE(std::memcmp(&got.moments[k][i], &wanted.moments[k][i], sizeof(float)) == 0);
          BOOST_REQUIRE(std::memcmp(&got.copy[2 * i], &wanted.copy[2 * i], 2) == 0);
          BOOST_REQUIRE(deferred[i] == (now ? 0.5F : 0.5F + g[i] * static_cast<float>(step.gradient_scale)));
        }
      }
}

BOOST_AUTO_TEST_CASE(the_others_are_updated_with_the_mean_of_their_deferred_gradients) {
  const optimizer_step step{.step = 3, .lr = 1e-2, .gradient_scale = 77};
  const auto selected = some_columns();
  const uint64_t count = 5000;
  for (const auto& options : all_optimizers) {
    const auto sum = awkward_bytes(core::dtype::f32, count, 4);
    auto deferred = floats_of(sum);
    const auto before = start(options, count);
    auto got = before, whole = before;
    update_deferred(options, step, got.piece(nullptr, core::dtype::f32, 0, count), {1024, columns}, selected,
                    deferred.data(), 4);
    auto mean = step;
    mean.gradient_scale = 0.25F;
    update(options, mean, whole.piece(sum.data(), core::dtype::f32, 0, count));
    for (uint64_t i = 0; i < count; ++i) {
      const bool now = selected[(1024 + i) % columns] != 0;
      const auto& wanted = now ? before : whole;
      BOOST_REQUIRE(std::memcmp(&got.master[i], &wanted.master[i], sizeof(float)) == 0);
      BOOST_REQUIRE(std::memcmp(&got.copy[2 * i], &wanted.copy[2 * i], 2) == 0);
      BOOST_REQUIRE((now || deferred[i] == 0));
    }
  }
}

BOOST_AUTO_TEST_CASE(columns_are_ranked_by_the_sum_of_magnitudes_the_first_of_equals_first) {
  // The piece consists of elements 3 to 9 of a matrix of four columns, so its first element is in column 3.
  std::vector<float> gradient{-8, 1, 2, -2, 1, 1, 1};
  optimizer_piece<float> piece;
  piece.gradient = reinterpret_cast<const std::byte*>(gradient.data());
  piece.count = gradient.size();
  std::vector<double> sums(4, 0);
  add_column_sums(piece, {3, 4}, sums);
  BOOST_TEST(sums == (std::vector<double>{2, 3, 2, 9}), boost::test_tools::per_element());
  std::vector<uint8_t> selected(4, 9);
  select_columns(sums, 3, selected);
  BOOST_TEST(selected == (std::vector<uint8_t>{1, 1, 0, 1}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(at_least_one_column_is_selected_and_at_most_all) {
  BOOST_TEST(num_selected(64, 0.1) == 6U);
  BOOST_TEST(num_selected(5, 0.1) == 1U);
  BOOST_TEST(num_selected(5, 0) == 1U);
  BOOST_TEST(num_selected(5, 1) == 5U);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::tests
