// Tests on the device the optimizers whose elements do not depend on each other.
#include "tests/kernels/cuda/optimizer_state.hpp"

namespace troupe::kernels::cuda::tests {
BOOST_AUTO_TEST_SUITE(optimizers)

namespace {

/// Compares one update on the device with the CPU's, then a second one that starts from the results of the first.
void compare(const optimizer_options& o, const piece_shape& s) {
  BOOST_TEST_CONTEXT(text_of(s)) {
    parameter wanted(s);
    device_parameter got(wanted, s);
    auto step = step_of(s);
    for (int i = 0; i < 2; ++i, ++step.step) {
      require(update_one(o, step, got.piece(s)));
      update_unchecked(o, step, wanted.piece(s));
      require_same_parameter(got, wanted, s);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(adamw_with_every_option_has_the_cpus_bits) {
  for (const double decay : {0.0, 0.1})
    for (const bool decoupled : {false, true})
      for (const bool corrected : {false, true})
        for_each_shape([&](const piece_shape& s) {
          compare(adamw_options{.weight_decay = decay, .adamw_mode = decoupled, .bias_correction = corrected}, s);
        });
}

BOOST_AUTO_TEST_CASE(adamw_with_other_constants_has_the_cpus_bits) {
  for (const auto& o : {adamw_options{.beta1 = 0, .beta2 = 0, .epsilon = 0},
                        adamw_options{.beta1 = 0.5, .beta2 = 0.95, .epsilon = 1e-3, .weight_decay = 3}})
    for_each_shape([&](const piece_shape& s) { compare(o, s); });
}

BOOST_AUTO_TEST_CASE(adagrad_with_every_option_has_the_cpus_bits) {
  for (const auto& o : {adagrad_options{}, adagrad_options{.epsilon = 1e-6, .weight_decay = 0.1, .lr_decay = 0.2},
                        adagrad_options{.epsilon = 0}})
    for_each_shape([&](piece_shape s) {
      s.has_second = false;
      compare(o, s);
    });
}

BOOST_AUTO_TEST_CASE(lion_with_every_option_has_the_cpus_bits) {
  for (const auto& o :
       {lion_options{}, lion_options{.beta1 = 0.5, .beta2 = 0.98, .weight_decay = 0.1}, lion_options{.beta1 = 0}})
    for_each_shape([&](piece_shape s) {
      s.has_second = false;
      compare(o, s);
    });
}

BOOST_AUTO_TEST_CASE(sgd_with_every_option_has_the_cpus_bits) {
  for (const auto& o : {sgd_options{}, sgd_options{.weight_decay = 0.1}, sgd_options{.momentum = 0.9, .dampening = 0.4},
                        sgd_options{.momentum = 0.9, .weight_decay = 0.1, .nesterov = true}})
    for_each_shape([&](piece_shape s) {
      s.has_second = false;
      compare(o, s);
    });
}

BOOST_AUTO_TEST_CASE(sgd_without_momentum_needs_no_moments) {
  const piece_shape s{.count = 5000, .has_second = false};
  parameter wanted(s);
  device_parameter got(wanted, s);
  auto on_host = wanted.piece(s), on_device = got.piece(s);
  on_host.moments = on_device.moments = {};
  kernels::sgd(sgd_options{}, step_of(s), on_host);
  require(update_one(sgd_options{}, step_of(s), on_device));
  require_same_parameter(got, wanted, s);
}

BOOST_AUTO_TEST_CASE(a_step_at_which_the_scale_is_not_finite_has_the_cpus_numbers) {
  const piece_shape s{.count = 3001};
  for (const double scale : {0.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    parameter wanted(s);
    device_parameter got(wanted, s);
    kernels::adamw(adamw_options{}, {.gradient_scale = scale}, wanted.piece(s));
    require(update_one(adamw_options{}, {.gradient_scale = scale}, got.piece(s)));
    require_same_parameter(got, wanted, s);
  }
}

BOOST_AUTO_TEST_CASE(pieces_of_many_optimizers_types_and_sizes_are_updated_at_once) {
  std::vector<piece_shape> shapes;
  for (uint64_t k = 0; k < 300; ++k)  // more pieces than one launch can process
    shapes.push_back({.count = k % 7 == 0 ? 0 : (k * k * 37) % 9001,
                      .gradient = fp32_dtypes[k % 3],
                      .copy = fp32_dtypes[k / 3 % 3],
                      .has_copy = k % 5 != 0,
                      .shift = k % 11 == 0 ? 1U : 0U});
  const std::vector<optimizer_options> optimizers{adamw_options{},   adamw_options{.weight_decay = 0.1},
                                                  adagrad_options{}, lion_options{},
                                                  sgd_options{},     sgd_options{.momentum = 0.9}};
  std::vector<parameter> wanted;
  std::vector<device_parameter> got;
  for (const auto& s : shapes) got.emplace_back(wanted.emplace_back(s), s);
  std::vector<piece_update<float>> all;
  for (size_t k = 0; k < shapes.size(); ++k) {
    // Two of three pieces use the same optimizer, so its launches have the largest possible number of pieces.
    const auto& o = optimizers[k % 3 == 0 ? k / 3 % optimizers.size() : 0];
    const optimizer_step step{.step = k + 1, .lr = 1e-3 * static_cast<double>(k), .gradient_scale = 0.5};
    all.push_back({o, step, got[k].piece(shapes[k])});
    update_unchecked(o, step, wanted[k].piece(shapes[k]));
  }
  require(cuda::update(all, test_stream()));
  for (size_t k = 0; k < shapes.size(); ++k)
    BOOST_TEST_CONTEXT("piece " << k << ": " << text_of(shapes[k]))
    require_same_parameter(got[k], wanted[k], shapes[k]);
}

BOOST_AUTO_TEST_CASE(an_optimizer_that_needs_whole_parameters_is_refused) {
  const piece_shape s{.count = 5};
  parameter wanted(s);
  device_parameter got(wanted, s);
  const auto ended = update_one(lamb_options{}, {}, got.piece(s));
  BOOST_REQUIRE(!ended);
  BOOST_TEST(ended.error().text.starts_with("CUDA update: wanted AdamW, Adagrad, Lion or SGD"));
  require_same_parameter(got, wanted, s);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::cuda::tests
