#include "kernels/optimizer.hpp"

#include "tests/kernels/samples.hpp"

namespace troupe::kernels::tests {
BOOST_AUTO_TEST_SUITE(optimizer)

BOOST_AUTO_TEST_CASE(an_update_by_any_name_is_the_kernels_own) {
  const uint64_t count = 100;
  const adamw_options options{.weight_decay = 0.1};
  const optimizer_step step{.step = 3, .lr = 0.01, .gradient_scale = 0.5F};
  const auto gradient = awkward_bytes(core::dtype::bf16, count, 4);
  auto p = awkward_floats(count, 1);
  std::vector<float> m(count);
  std::vector<float> v(count);
  std::vector<uint16_t> copy(count);
  auto wanted_p = p;
  auto wanted_m = m;
  auto wanted_v = v;
  auto wanted_copy = copy;
  update(optimizer_options(options), step,
         optimizer_piece<float>{.master = p.data(),
                                .moments = {m.data(), v.data()},
                                .gradient = gradient.data(),
                                .gradient_dtype = core::dtype::bf16,
                                .copy = reinterpret_cast<std::byte*>(copy.data()),
                                .count = count});
  kernels::adamw(options, step, wanted_p.data(), wanted_m.data(), wanted_v.data(), gradient.data(), core::dtype::bf16,
                 reinterpret_cast<std::byte*>(wanted_copy.data()), core::dtype::bf16, count);
  TROUPE_CHECK_SAME_BITS(p, wanted_p);
  TROUPE_CHECK_SAME_BITS(m, wanted_m);
  TROUPE_CHECK_SAME_BITS(v, wanted_v);
  TROUPE_CHECK_SAME_BITS(copy, wanted_copy);
}

BOOST_AUTO_TEST_CASE(an_update_in_fp64_is_the_kernels_own) {
  std::vector<double> p{1, -2, 3};
  std::vector<double> m(3);
  std::vector<double> v(3);
  const std::vector<double> g{0.1, 0.2, -0.3};
  auto wanted_p = p;
  auto wanted_m = m;
  auto wanted_v = v;
  update(optimizer_options(), {},
         optimizer_piece<double>{.master = p.data(),
                                 .moments = {m.data(), v.data()},
                                 .gradient = reinterpret_cast<const std::byte*>(g.data()),
                                 .gradient_dtype = core::dtype::f64,
                                 .count = 3});
  kernels::adamw({}, {}, wanted_p.data(), wanted_m.data(), wanted_v.data(), g.data(), 3);
  TROUPE_CHECK_SAME_BITS(p, wanted_p);
  TROUPE_CHECK_SAME_BITS(v, wanted_v);
}

BOOST_AUTO_TEST_CASE(moments_have_the_names_of_checkpoints) {
  const auto names = moment_names(adamw_options());
  BOOST_REQUIRE_EQUAL(names.size(), 2);
  BOOST_CHECK_EQUAL(names[0], "exp_avg");
  BOOST_CHECK_EQUAL(names[1], "exp_avg_sq");
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::tests
