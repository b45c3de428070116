// The optimizers whose elements need nothing of their neighbours.
#include "tests/kernels/cuda/optimizer_state.hpp"

namespace troupe::kernels::cuda::tests {
BOOST_AUTO_TEST_SUITE(optimizers)

namespace {

/// One update on each side, then a second one from where the first ended.
template <class Options, class Device, class Host>
void compare(const Options& o, const piece_shape& s, Device& on_device, Host& on_host) {
  BOOST_TEST_CONTEXT(text_of(s)) {
    parameter wanted(s);
    device_parameter got(wanted, s);
    auto step = step_of(s);
    for (int i = 0; i < 2; ++i, ++step.step) {
      require(on_device(o, step, got.piece(s), test_stream()));
      on_host(o, step, wanted.piece(s));
      require_same_parameter(got, wanted, s);
    }
  }
}

using host_adamw = void(const adamw_options&, const optimizer_step&, const optimizer_piece<float>&);

}  // namespace

BOOST_AUTO_TEST_CASE(adamw_with_every_option_has_the_cpus_bits) {
  host_adamw& on_host = kernels::adamw;
  for (const double decay : {0.0, 0.1})
    for (const bool decoupled : {false, true})
      for (const bool corrected : {false, true})
        for_each_shape([&](const piece_shape& s) {
          compare(adamw_options{.weight_decay = decay, .adamw_mode = decoupled, .bias_correction = corrected}, s,
                  cuda::adamw, on_host);
        });
}

BOOST_AUTO_TEST_CASE(adamw_with_other_constants_has_the_cpus_bits) {
  host_adamw& on_host = kernels::adamw;
  for (const auto& o : {adamw_options{.beta1 = 0, .beta2 = 0, .epsilon = 0},
                        adamw_options{.beta1 = 0.5, .beta2 = 0.95, .epsilon = 1e-3, .weight_decay = 3}})
    for_each_shape([&](const piece_shape& s) { compare(o, s, cuda::adamw, on_host); });
}

BOOST_AUTO_TEST_CASE(adagrad_with_every_option_has_the_cpus_bits) {
  void (&on_host)(const adagrad_options&, const optimizer_step&, const optimizer_piece<float>&) = kernels::adagrad;
  for (const auto& o : {adagrad_options{}, adagrad_options{.epsilon = 1e-6, .weight_decay = 0.1, .lr_decay = 0.2},
                        adagrad_options{.epsilon = 0}})
    for_each_shape([&](piece_shape s) {
      s.has_second = false;
      compare(o, s, cuda::adagrad, on_host);
    });
}

BOOST_AUTO_TEST_CASE(lion_with_every_option_has_the_cpus_bits) {
  void (&on_host)(const lion_options&, const optimizer_step&, const optimizer_piece<float>&) = kernels::lion;
  for (const auto& o :
       {lion_options{}, lion_options{.beta1 = 0.5, .beta2 = 0.98, .weight_decay = 0.1}, lion_options{.beta1 = 0}})
    for_each_shape([&](piece_shape s) {
      s.has_second = false;
      compare(o, s, cuda::lion, on_host);
    });
}

BOOST_AUTO_TEST_CASE(sgd_with_every_option_has_the_cpus_bits) {
  void (&on_host)(const sgd_options&, const optimizer_step&, const optimizer_piece<float>&) = kernels::sgd;
  for (const auto& o : {sgd_options{}, sgd_options{.weight_decay = 0.1}, sgd_options{.momentum = 0.9, .dampening = 0.4},
                        sgd_options{.momentum = 0.9, .weight_decay = 0.1, .nesterov = true}})
    for_each_shape([&](piece_shape s) {
      s.has_second = false;
      compare(o, s, cuda::sgd, on_host);
    });
}

BOOST_AUTO_TEST_CASE(sgd_without_momentum_needs_no_moments) {
  const piece_shape s{.count = 5000, .has_second = false};
  parameter wanted(s);
  device_parameter got(wanted, s);
  auto on_host = wanted.piece(s), on_device = got.piece(s);
  on_host.moments = on_device.moments = {};
  kernels::sgd(sgd_options{}, step_of(s), on_host);
  require(cuda::sgd(sgd_options{}, step_of(s), on_device, test_stream()));
  require_same_parameter(got, wanted, s);
}

BOOST_AUTO_TEST_CASE(a_step_at_which_the_scale_is_not_finite_has_the_cpus_numbers) {
  const piece_shape s{.count = 3001};
  for (const double scale : {0.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    parameter wanted(s);
    device_parameter got(wanted, s);
    kernels::adamw(adamw_options{}, {.gradient_scale = scale}, wanted.piece(s));
    require(cuda::adamw({}, {.gradient_scale = scale}, got.piece(s), test_stream()));
    require_same_parameter(got, wanted, s);
  }
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::cuda::tests
