// Tests public kernels with invalid numbers and memory views: each returns an error that names the expected value, and
// writes nothing.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/compress/snip_momentum.hpp"
#include "kernels/optimizer/loss_scaler.hpp"
#include "kernels/optimizer/optimizer.hpp"
#include "kernels/optimizer/schedule.hpp"

namespace troupe::kernels::tests {
BOOST_AUTO_TEST_SUITE(wrong_numbers)

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();

template <class Result>
void refused(const Result& r, const std::string& text) {
  BOOST_TEST_REQUIRE(!r.has_value(), text);
  BOOST_TEST((r.error().kind == core::error_kind::bad_input));
  BOOST_TEST(r.error().text.find(text) != std::string::npos, r.error().text);
}

std::byte* bytes(float* p) { return reinterpret_cast<std::byte*>(p); }

/// Returns a piece of eight elements whose arrays follow each other in memory from `at` on.
optimizer_piece<float> piece_at(float* at) {
  return {.master = at,
          .moments = {at + 8, at + 16},
          .gradient = bytes(at + 24),
          .copy = bytes(at + 32),
          .copy_dtype = core::dtype::bf16,
          .count = 8};
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_update_without_its_memory_or_with_numbers_that_are_none_is_refused_and_writes_nothing) {
  std::vector<float> w(8, 1.0F), m(8), v(8), g(8, 1.0F);
  const optimizer_piece<float> whole{.master = w.data(),
                                     .moments = {m.data(), v.data()},
                                     .gradient = reinterpret_cast<const std::byte*>(g.data()),
                                     .count = w.size()};
  const optimizer_options adam = adamw_options{};
  const auto with = [&](auto change) {
    auto piece = whole;
    change(piece);
    return update(adam, {}, piece);
  };
  refused(with([](auto& p) { p.master = nullptr; }), "masters and a gradient");
  refused(with([](auto& p) { p.gradient = nullptr; }), "masters and a gradient");
  refused(with([](auto& p) { p.moments[1] = nullptr; }), "2 moments, got 1");
  refused(with([](auto& p) { p.gradient_dtype = core::dtype::i64; }), "a gradient in f32, bf16 or f16, got");
  refused(with([](auto& p) { p.gradient_dtype = core::dtype::f64; }), "a gradient in f32, bf16 or f16, got");
  refused(with([&](auto& p) {
            p.copy = reinterpret_cast<std::byte*>(g.data());
            p.copy_dtype = core::dtype::i8;
          }),
          "a copy in f32, bf16 or f16");
  refused(update(lamb_options{}, {}, whole), "LAMB and Muon have separate calls");
  refused(update(muon_options{}, {}, whole), "LAMB and Muon have separate calls");
  for (const double bad : {nan, infinity, -infinity}) {
    refused(update(adam, {.lr = bad}, whole), "a finite learning rate");
    refused(update(adam, {.gradient_scale = bad}, whole), "a finite factor on the gradient");
  }
  refused(update(adam, {.step = 0}, whole), "a step from 1 on");
  refused(update(adamw_options{.beta2 = nan}, {}, whole), "an optimizer's update: wanted a finite beta2, got nan");
  refused(update(adagrad_options{.lr_decay = infinity}, {}, whole), "a finite lr_decay");
  refused(update(lion_options{.weight_decay = nan}, {}, whole), "a finite weight_decay");
  refused(update(sgd_options{.momentum = -infinity}, {}, whole), "a finite momentum");
  std::vector<double> wide(8, 1.0);
  optimizer_piece<double> in_fp64{.master = wide.data(),
                                  .moments = {wide.data(), wide.data()},
                                  .gradient = reinterpret_cast<const std::byte*>(wide.data()),
                                  .gradient_dtype = core::dtype::f32,
                                  .count = wide.size()};
  refused(update(adam, {}, in_fp64), "a gradient in f64");
  BOOST_TEST(w == std::vector<float>(8, 1.0F), boost::test_tools::per_element());
  BOOST_TEST(update(adam, {}, optimizer_piece<float>{}).has_value());
  BOOST_TEST(update(adam, {}, whole).has_value());
  BOOST_TEST(w[0] != 1.0F);
}

BOOST_AUTO_TEST_CASE(an_update_of_views_that_share_memory_is_refused_and_writes_nothing) {
  std::vector<float> memory(64, 1.0F);
  auto* const at = memory.data();
  const optimizer_piece<float> apart = piece_at(at);
  const auto with = [&](auto change) {
    auto piece = apart;
    change(piece);
    return update(adamw_options{}, {}, piece);
  };
  refused(with([&](auto& p) { p.moments[0] = at + 7; }), "got masters and moment 0 that share bytes");
  refused(with([&](auto& p) { p.moments[1] = at + 8; }), "got moment 0 and moment 1 that share bytes");
  refused(with([&](auto& p) { p.gradient = bytes(at + 23); }), "got a gradient and moment 1 that share bytes");
  refused(with([&](auto& p) { p.copy = bytes(at + 31); }), "got a gradient and a copy that share bytes");
  refused(with([&](auto& p) { p.copy = bytes(at); }), "got masters and a copy that share bytes");
  BOOST_TEST(memory == std::vector<float>(64, 1.0F), boost::test_tools::per_element());
  BOOST_TEST(with([&](auto& p) { p.copy = bytes(at + 32); }).has_value());  // the views are adjacent, but none overlaps
  BOOST_TEST(with([&](auto& p) { p.moments[0] = at + 40; }).has_value());
}

BOOST_AUTO_TEST_CASE(scores_and_masks_of_another_size_are_refused) {
  std::vector<float> scores(16), weight(16), few(15);
  std::vector<uint8_t> keep(16);
  const pruned_matrix m{4, 4, {2, 2}};
  refused(add_saliency(scores, weight, few), "for each of 16 scores were wanted, got 16 and 15");
  refused(add_saliency(scores, few, weight), "got 15 and 16");
  refused(block_scores(m, few), "a score for each of 4 x 4 elements");
  refused(block_scores({4, 4, {0, 2}}, scores), "at least one row and one column");
  refused(check(pruned_matrix{4, 4, {2, 0}}), "at least one row and one column");
  refused(snip_mask({4, 4, {3, 1}}, scores, 0.5, keep), "do not divide");
  refused(snip_mask(m, scores, 0.5, std::span(keep).first(15)), "got 15 and 0.5");
  for (const double sparsity : {nan, -0.5, 1.5})
    refused(snip_mask(m, scores, sparsity, keep), "a sparsity from 0 to 1");
  const prune_schedule never{.dense_ratio = 0.1, .begin = 2, .end = 8, .stride = 0};
  refused(check(never), "at least 1 step, got 0");
  BOOST_TEST(never.sparsity_at(5) > 0);
  BOOST_TEST(never.is_turn(5));
  BOOST_TEST(snip_mask(m, scores, 1, keep).has_value());
}

BOOST_AUTO_TEST_CASE(a_schedule_of_no_steps_or_of_numbers_that_are_none_has_a_sentence_and_no_rate) {
  using core::schedule_type;
  const auto has_none = [](const schedule_options& o, const std::string& text) {
    refused(check(o), text);
    BOOST_TEST(std::isnan(learning_rate(o, 5)));
  };
  has_none({.type = schedule_type::range_test, .lr_range_test_step_size = 0}, "lr_range_test_step_size of at least 1");
  has_none({.type = schedule_type::one_cycle, .cycle_first_step_size = 0}, "cycle_first_step_size of at least 1");
  has_none({.type = schedule_type::cosine_annealing, .t_max = 0}, "T_max of at least 1");
  has_none({.type = schedule_type::linear, .total_iters = 0}, "total_iters of at least 1");
  has_none({.type = schedule_type::polynomial, .total_iters = 0}, "total_iters of at least 1");
  has_none({.type = schedule_type::warm_restarts}, "T_0 of at least 1");
  has_none({.type = schedule_type::warm_restarts, .t_0 = 1, .t_mult = 0}, "T_mult of at least 1");
  has_none({.type = schedule_type::cosine_with_restarts, .num_cycles = 0}, "num_cycles of at least 1");
  has_none({.type = schedule_type::warmup_stable_decay}, "num_decay_steps of at least 1");
  has_none({.type = schedule_type::warmup_stable_decay,
            .num_warmup_steps = 4,
            .num_training_steps = 8,
            .num_decay_steps = 5},
           "num_training_steps of at least num_warmup_steps 4 plus num_decay_steps 5, got 8");
  has_none({.base_lr = nan}, "a finite lr");
  has_none({.type = schedule_type::warmup, .warmup_max_lr = infinity}, "a finite warmup_max_lr");
  has_none({.type = static_cast<schedule_type>(99)}, "one of its types, got number 99");
  const auto beta = momentum({.type = schedule_type::one_cycle, .cycle_first_step_size = 0}, 3);
  BOOST_TEST_REQUIRE(beta.has_value());
  BOOST_TEST(std::isnan(*beta));
  BOOST_TEST(check({.type = schedule_type::one_cycle, .cycle_second_step_size = 0}).has_value());
  BOOST_TEST(check({.t_max = 0, .eta_min = nan}).has_value());  // t_max and eta_min belong to other schedules
  const schedule_options warmup{.type = schedule_type::warmup, .warmup_min_lr = 0.25};
  BOOST_TEST(learning_rate(warmup, std::numeric_limits<int64_t>::min()) == 0.25);
  BOOST_TEST(learning_rate(warmup, -1) == 0.25);
}

BOOST_AUTO_TEST_CASE(a_loss_scale_with_options_that_mean_nothing_is_refused) {
  const auto has_none = [](const loss_scale_options& o, const std::string& text) {
    refused(check(o), text);
    refused(next_loss_scale(o, first_loss_scale(o), false), text);
    refused(next_loss_scale(o, {.cur_iter = 1000}, true), text);
  };
  has_none({.loss_scale = nan}, "fp16.loss_scale of at least 0");
  has_none({.loss_scale = -1}, "fp16.loss_scale of at least 0");
  has_none({.initial_scale_power = 4'000'000'000}, "fp16.initial_scale_power below 1024");
  has_none({.loss_scale_window = 0}, "fp16.loss_scale_window from 1");
  has_none({.loss_scale_window = UINT64_MAX}, "fp16.loss_scale_window from 1");
  has_none({.hysteresis = 0}, "fp16.hysteresis of at least 1");
  has_none({.min_loss_scale = 0}, "fp16.min_loss_scale above 0");
  const loss_scale_options fixed{.loss_scale = 128, .loss_scale_window = 0, .hysteresis = 0, .min_loss_scale = 0};
  BOOST_TEST(next_loss_scale(fixed, first_loss_scale(fixed), true).has_value());
  for (const double scale : {nan, 0.0, -2.0, infinity})
    refused(next_loss_scale({}, {.cur_scale = scale}, false), "a state with a scale above 0");
  constexpr int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  for (const int64_t step : {least, int64_t{-1}, most})
    for (const loss_scale_options& o : {loss_scale_options{}, fixed})
      refused(next_loss_scale(o, {.cur_iter = step}, false), "a number of steps of at least 0");
  for (const int64_t last : {least, int64_t{-2}, int64_t{6}, most})
    refused(next_loss_scale({}, {.cur_iter = 5, .last_overflow_iter = last}, false), "an overflow before step 5");
  const auto used_up = next_loss_scale({}, {.cur_scale = 8, .cur_hysteresis = 0}, true);
  BOOST_TEST_REQUIRE(used_up.has_value());
  BOOST_TEST(used_up->cur_scale == 4);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::tests
