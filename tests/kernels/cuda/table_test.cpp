// Tests kernels/cuda/table.hpp: each entry calls the CUDA kernel of its operation on the thread's stream, and a launch
// error is reported.
#include "kernels/cuda/table.hpp"

#include <array>
#include <bit>
#include <stdexcept>

#include "kernels/base/cast.hpp"
#include "kernels/optimizer/optimizer.hpp"
#include "tests/kernels/cuda/device_array.hpp"
#include "tests/kernels/cuda/numbers.hpp"
#include "tests/kernels/cuda/optimizer_state.hpp"

namespace troupe::kernels::cuda::tests {
BOOST_AUTO_TEST_SUITE(table)

namespace {

uint64_t noted = 0;
core::result<void> last;
uint64_t orthogonalised = 0;

const operations& table_under_test() {
  static const operations& all =
      table_with({.current = [] { return stream{test_stream()}; },
                  .note =
                      [](const core::result<void>& launched) {
                        ++noted;
                        last = launched;
                      },
                  .orthogonalise = [](std::span<float>, uint64_t rows, uint64_t cols, uint32_t,
                                      std::span<float>) { orthogonalised += rows * cols; }});
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(no_operation_is_missing) {
  const auto all = std::bit_cast<std::array<void*, sizeof(operations) / sizeof(void*)>>(table_under_test());
  for (size_t i = 0; i < all.size(); ++i) BOOST_TEST(all[i] != nullptr, "operation " << i);
}

BOOST_AUTO_TEST_CASE(an_entry_is_its_twin_and_tells_what_its_launch_came_to) {
  const std::vector<float> x{1.0F, -2.5F, 3.1415927F, 1e-30F};
  device_array<float> in(x);
  device_array<uint16_t> out(std::vector<uint16_t>(x.size()));
  noted = 0;
  table_under_test().cast(reinterpret_cast<const std::byte*>(in.data()), core::dtype::f32,
                          reinterpret_cast<std::byte*>(out.data()), core::dtype::bf16, x.size());
  BOOST_TEST(noted == 1U);
  require(last);
  std::vector<uint16_t> wanted(x.size());
  kernels::cast(reinterpret_cast<const std::byte*>(x.data()), core::dtype::f32,
                reinterpret_cast<std::byte*>(wanted.data()), core::dtype::bf16, x.size());
  BOOST_TEST(out.back() == wanted, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_a_twin_refuses_is_told_and_not_thrown) {
  const std::vector<const std::byte*> inputs(max_sum_ranks + 1);
  table_under_test().sum_in_rank_order(inputs, nullptr, 1, {});
  BOOST_REQUIRE(!last);
  BOOST_TEST(last.error().text == "CUDA sum: wanted 1 to 256 inputs, got 257");
}

BOOST_AUTO_TEST_CASE(an_update_is_that_of_the_optimizer_in_the_options) {
  for (const optimizer_options& o :
       {optimizer_options(adamw_options{}), optimizer_options(adagrad_options{}), optimizer_options(lion_options{}),
        optimizer_options(sgd_options{.momentum = 0.9})})
    for_each_shape([&](const piece_shape& s) {
      if (s.has_second != std::holds_alternative<adamw_options>(o)) return;
      parameter wanted(s);
      device_parameter got(wanted, s);
      const auto step = step_of(s);
      const piece_update<float> one{o, step, got.piece(s)};
      table_under_test().in_fp32.update({&one, 1});
      require(last);
      update_unchecked(o, step, wanted.piece(s));
      require_same_parameter(got, wanted, s);
    });
}

BOOST_AUTO_TEST_CASE(a_matrix_is_made_orthogonal_by_products_of_others) {
  orthogonalised = 0;
  table_under_test().in_fp32.orthogonalise({}, 3, 5, 5, {});
  BOOST_TEST(orthogonalised == 15U);
}

BOOST_AUTO_TEST_CASE(what_no_job_on_a_gpu_needs_names_itself) {
  const auto says = [](const std::string& name) {
    return [name](const std::logic_error& e) { return e.what() == "the kernels of CUDA devices have no " + name; };
  };
  BOOST_CHECK_EXCEPTION(table_under_test().in_fp32.take_back({}, nullptr), std::logic_error, says("take_back"));
  BOOST_CHECK_EXCEPTION(table_under_test().in_fp64.update({}), std::logic_error, says("in_fp64.update"));
  BOOST_CHECK_EXCEPTION(
      table_under_test().distil(nullptr, nullptr, core::dtype::f32, 0, 0, nullptr, {}, nullptr, 0, nullptr),
      std::logic_error, says("distil"));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::cuda::tests
