#include "kernels/optimizer/optimizer.hpp"

#include "kernels/optimizer/schedule.hpp"
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
  kernels::adamw(options, step,
                 optimizer_piece<float>{.master = wanted_p.data(),
                                        .moments = {wanted_m.data(), wanted_v.data()},
                                        .gradient = gradient.data(),
                                        .gradient_dtype = core::dtype::bf16,
                                        .copy = reinterpret_cast<std::byte*>(wanted_copy.data()),
                                        .count = count});
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
  kernels::adamw({}, {},
                 optimizer_piece<double>{.master = wanted_p.data(),
                                         .moments = {wanted_m.data(), wanted_v.data()},
                                         .gradient = reinterpret_cast<const std::byte*>(g.data()),
                                         .gradient_dtype = core::dtype::f64,
                                         .count = 3});
  TROUPE_CHECK_SAME_BITS(p, wanted_p);
  TROUPE_CHECK_SAME_BITS(v, wanted_v);
}

BOOST_AUTO_TEST_CASE(moments_have_the_names_of_checkpoints) {
  const auto check = [](const optimizer_options& options, const std::vector<std::string_view>& wanted) {
    const auto names = moment_names(options);
    BOOST_TEST(std::vector<std::string_view>(names.begin(), names.end()) == wanted, boost::test_tools::per_element());
    BOOST_CHECK_LE(names.size(), max_moments);
  };
  check(adamw_options(), {"exp_avg", "exp_avg_sq"});
  check(lamb_options(), {"exp_avg", "exp_avg_sq"});
  check(adagrad_options(), {"sum"});
  check(lion_options(), {"exp_avg"});
  check(muon_options(), {"momentum_buffer"});
  check(sgd_options(), {});
  check(sgd_options{.momentum = 0.9}, {"momentum_buffer"});
}

BOOST_AUTO_TEST_CASE(each_optimizer_states_its_needs) {
  const std::vector<optimizer_options> by_elements{adamw_options(), adagrad_options(), lion_options(), sgd_options()};
  for (const auto& o : by_elements) BOOST_CHECK(need_of(o) == optimizer_need::elements);
  BOOST_CHECK(need_of(lamb_options()) == optimizer_need::parameter_norms);
  BOOST_CHECK(need_of(muon_options()) == optimizer_need::whole_matrix);
}

BOOST_AUTO_TEST_CASE(a_cycled_momentum_reaches_those_with_betas) {
  const auto moved = with_betas(lamb_options{.weight_decay = 0.3}, 0.85, one_cycle_beta2);
  BOOST_CHECK_EQUAL(std::get<lamb_options>(moved).beta1, 0.85);
  BOOST_CHECK_EQUAL(std::get<lamb_options>(moved).beta2, 0.99);
  BOOST_CHECK_EQUAL(std::get<lamb_options>(moved).weight_decay, 0.3);
  BOOST_CHECK_EQUAL(std::get<adamw_options>(with_betas(adamw_options(), 0.5, 0.6)).beta2, 0.6);
  BOOST_CHECK_EQUAL(std::get<sgd_options>(with_betas(sgd_options{.momentum = 0.9}, 0.5, 0.6)).momentum, 0.9);
  BOOST_CHECK(has_betas(adamw_options()) && has_betas(lion_options()) && has_betas(lamb_options()));
  BOOST_CHECK(!has_betas(sgd_options()) && !has_betas(adagrad_options()) && !has_betas(muon_options()));
}

BOOST_AUTO_TEST_CASE(sgd_without_momentum_touches_no_moment) {
  std::vector<float> p{1, 2, 3};
  const std::vector<float> g{1, -2, 4};
  update(sgd_options{}, {.step = 3, .lr = 0.5},
         optimizer_piece<float>{
             .master = p.data(), .gradient = reinterpret_cast<const std::byte*>(g.data()), .count = p.size()});
  BOOST_TEST(p == (std::vector<float>{0.5, 3, 1}));
}

BOOST_AUTO_TEST_CASE(a_first_step_ignores_the_contents_of_a_momentum_buffer) {
  const std::vector<float> g{2};
  for (const float held : {0.0F, 100.0F}) {
    BOOST_TEST_INFO_SCOPE("held " << held);
    std::vector<float> p{1};
    std::vector<float> m{held};
    update(sgd_options{.momentum = 0.5, .dampening = 0.75}, {.step = 1, .lr = 0.25},
           optimizer_piece<float>{.master = p.data(),
                                  .moments = {m.data()},
                                  .gradient = reinterpret_cast<const std::byte*>(g.data()),
                                  .count = 1});
    BOOST_CHECK_EQUAL(m[0], 2);
    BOOST_CHECK_EQUAL(p[0], 0.5);
  }
}

BOOST_AUTO_TEST_CASE(lion_changes_nothing_for_a_direction_of_zero) {
  std::vector<double> p{1};
  std::vector<double> m{0};
  const std::vector<double> g{0};
  update(lion_options{}, {.lr = 0.25},
         optimizer_piece<double>{.master = p.data(),
                                 .moments = {m.data()},
                                 .gradient = reinterpret_cast<const std::byte*>(g.data()),
                                 .gradient_dtype = core::dtype::f64,
                                 .count = 1});
  BOOST_CHECK_EQUAL(p[0], 1);
}

BOOST_AUTO_TEST_CASE(a_trust_ratio_stays_in_its_limits_and_is_one_for_a_norm_of_zero) {
  const lamb_options o{.max_coeff = 10, .min_coeff = 0.01};
  BOOST_CHECK_EQUAL(trust_ratio(o, 9, 4), 1.5);
  BOOST_CHECK_EQUAL(trust_ratio(o, 1e6, 1), 10);
  BOOST_CHECK_EQUAL(trust_ratio(o, 1, 1e6), 0.01);
  BOOST_CHECK_EQUAL(trust_ratio(o, 0, 4), 1);
  BOOST_CHECK_EQUAL(trust_ratio(o, 9, 0), 1);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::tests
