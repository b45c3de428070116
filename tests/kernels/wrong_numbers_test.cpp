// Tests public kernels with invalid numbers and memory views: each returns an error that names the expected value, and
// writes nothing.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/compress/fake_quantise.hpp"
#include "kernels/compress/snip_momentum.hpp"
#include "kernels/optimizer/checked_halves.hpp"
#include "kernels/optimizer/loss_scaler.hpp"
#include "kernels/optimizer/optimizer.hpp"
#include "kernels/optimizer/orthogonalise.hpp"
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

BOOST_AUTO_TEST_CASE(halves_of_lamb_and_muon_whose_views_share_memory_are_refused_and_write_nothing) {
  std::vector<float> memory(64, 1.0F);
  std::vector<double> sums(2, 7.0);
  auto* const at = memory.data();
  const optimizer_piece<float> apart = piece_at(at);
  const auto with = [&](auto change) {
    auto piece = apart;
    change(piece);
    return piece;
  };
  const lamb_options lamb;
  const muon_options muon;
  const std::span all(sums);
  const auto prepare_lamb = [&](const auto& piece, auto weights, auto updates) {
    return prepare(lamb, {}, piece, weights, updates);
  };
  refused(prepare_lamb(with([&](auto& p) { p.moments[0] = at + 7; }), all.first(1), all.last(1)),
          "the first half of LAMB's update: wanted views that overlap nowhere in memory, got masters and moment 0 that "
          "share bytes");
  refused(prepare_lamb(with([&](auto& p) { p.gradient = bytes(at + 9); }), all.first(1), all.last(1)),
          "got a gradient and moment 0 that share bytes");
  refused(prepare_lamb(apart, all.first(1), all.first(1)), "got sums of weights and sums of updates that share bytes");
  refused(prepare_lamb(apart, all, all.last(1)), "wanted 1 sums of weights and of updates, got 2 and 1");
  refused(prepare(lamb, {.step = 0}, apart, all.first(1), all.last(1)), "a step from 1 on");
  refused(
      apply(lamb, {}, with([&](auto& p) { p.copy = bytes(at + 15); }), 1),
      "the second half of LAMB's update: wanted views that overlap nowhere in memory, got moment 0 and a copy that");
  refused(apply(lamb, {}, apart, nan), "a finite trust ratio");
  refused(prepare(muon, {}, apart, at + 10), "got moment 0 and a place for directions that share bytes");
  refused(prepare(muon, {}, apart, static_cast<float*>(nullptr)), "wanted a place for directions, got none");
  refused(prepare(muon, {}, with([](auto& p) { p.moments[0] = nullptr; }), at + 40), "1 moment, got 0");
  refused(
      apply(muon, {}, apart, at + 4),
      "the second half of Muon's update: wanted views that overlap nowhere in memory, got masters and an orthogonal "
      "matrix that share bytes");
  std::vector<float> room(64 + orthogonalise_scratch(8, 4), 1.0F);
  const std::span matrix(room.data(), 32);
  refused(orthogonalise(matrix, 8, 4, 5, std::span(room).subspan(31)), "got the matrix and scratch that share bytes");
  refused(orthogonalise(matrix, 8, 5, 5, std::span(room).subspan(32)), "wanted 8 x 5 elements, got 32");
  refused(orthogonalise(matrix, 8, 4, 5, std::span(room).subspan(32, 8)), "elements, got 8");
  BOOST_TEST(memory == std::vector<float>(64, 1.0F), boost::test_tools::per_element());
  BOOST_TEST(room == std::vector<float>(room.size(), 1.0F), boost::test_tools::per_element());
  BOOST_TEST(sums == std::vector<double>(2, 7.0), boost::test_tools::per_element());
  // Arrays that are only read may overlap, and each phase of LAMB and Muon ignores arrays that it neither reads nor
  // writes.
  BOOST_TEST(prepare_lamb(with([&](auto& p) { p.gradient = bytes(at); }), all.first(1), all.last(1)).has_value());
  BOOST_TEST(apply(lamb, {}, with([](auto& p) { p.gradient = nullptr; }), 1).has_value());
  BOOST_TEST(prepare(muon, {}, with([](auto& p) { p.master = nullptr; }), at + 40).has_value());
  BOOST_TEST(apply(muon, {}, with([](auto& p) { p.moments = {}; }), at + 40).has_value());
  BOOST_TEST(orthogonalise(matrix, 8, 4, 5, std::span(room).subspan(32)).has_value());
}

BOOST_AUTO_TEST_CASE(halves_of_lamb_and_muon_without_memory_or_with_numbers_that_are_none_are_refused) {
  std::vector<float> memory(64, 1.0F);
  std::vector<double> sums(2, 7.0);
  const optimizer_piece<float> whole = piece_at(memory.data());
  const std::span weights = std::span(sums).first(1), updates = std::span(sums).last(1);
  float* const more = memory.data() + 48;
  const auto without = [&](auto change) {
    auto piece = whole;
    change(piece);
    return piece;
  };
  const std::string lamb_1 = "the first half of LAMB's update: wanted ",
                    muon_1 = "the first half of Muon's update: wanted ";
  for (const double bad : {nan, infinity, -infinity}) {
    refused(prepare(lamb_options{.beta1 = bad}, {}, whole, weights, updates), lamb_1 + "a finite beta1, got ");
    refused(prepare(lamb_options{}, {.gradient_scale = bad}, whole, weights, updates),
            "a finite factor on the gradient");
    refused(apply(lamb_options{.epsilon = bad}, {}, whole, 1), "a finite epsilon");
    refused(apply(lamb_options{}, {.lr = bad}, whole, 1), "a finite learning rate");
    refused(apply(lamb_options{}, {}, whole, bad), "a finite trust ratio");
    refused(prepare(muon_options{.momentum = bad}, {}, whole, more), muon_1 + "a finite momentum, got ");
    refused(apply(muon_options{.weight_decay = bad}, {}, whole, more), "a finite weight_decay");
    refused(apply(muon_options{}, {.lr = bad}, whole, more), "a finite learning rate");
  }
  refused(prepare(lamb_options{.max_coeff = 1, .min_coeff = 2}, {}, whole, weights, updates),
          lamb_1 + "min_coeff up to max_coeff, got 2 and 1");
  refused(prepare(lamb_options{}, {}, without([](auto& p) { p.master = nullptr; }), weights, updates), "masters and");
  refused(prepare(lamb_options{}, {}, without([](auto& p) { p.moments[1] = nullptr; }), weights, updates), "2 moments");
  refused(prepare(lamb_options{}, {}, whole, weights, std::span(sums).first(0)), "got 1 and 0");
  refused(apply(lamb_options{}, {}, without([](auto& p) { p.master = nullptr; }), 1), "wanted masters, got none");
  refused(prepare(muon_options{}, {}, without([](auto& p) { p.gradient = nullptr; }), more), "wanted a gradient, got");
  refused(apply(muon_options{}, {}, whole, static_cast<const float*>(nullptr)), "an orthogonal matrix, got none");
  refused(apply(muon_options{}, {.step = 0}, whole, more), "a step from 1 on");
  BOOST_TEST(memory == std::vector<float>(64, 1.0F), boost::test_tools::per_element());
  BOOST_TEST(sums == std::vector<double>(2, 7.0), boost::test_tools::per_element());
  BOOST_TEST(prepare(lamb_options{}, {}, whole, weights, updates).has_value());
  BOOST_TEST(apply(muon_options{}, {}, whole, more).has_value());
}

BOOST_AUTO_TEST_CASE(a_result_that_shares_memory_with_what_is_read_is_refused_and_not_written) {
  std::vector<float> memory(32, 1.5F);
  auto* const at = reinterpret_cast<std::byte*>(memory.data());
  const auto bytes_at = [&](size_t element) { return at + element * sizeof(float); };
  const grouped_values two{at, core::dtype::f32, 2, 4}, one{at, core::dtype::f32, 1, 8};
  const quantiser grid, binary{quantiser_kind::binary, 1};
  const std::span ranges(reinterpret_cast<value_range<double>*>(bytes_at(4)), 2);
  const std::string values_and = "quantised values: wanted views that overlap nowhere in memory, got values and ";
  std::vector<value_range<double>> elsewhere(2);
  for (const size_t element : {1, 4, 7}) {
    refused(fake_quantise(two, grid, bytes_at(element)), values_and + "the result that share bytes");
    refused(fake_quantise_within(two, grid, elsewhere, bytes_at(element)), values_and + "the result that");
    refused(fake_quantise_by_sums(one, binary, {}, {}, bytes_at(element)), values_and + "the result that");
  }
  refused(group_ranges(two, ranges), values_and + "ranges that share bytes");
  refused(fake_quantise_within(two, grid, ranges, at), "got ranges and the result that share bytes");
  std::vector<float> scores(16, 0.5F);
  const std::span score(scores);
  refused(add_saliency(score.first(8), score.subspan(7, 8), std::span(memory).first(8)),
          "scores of pruning: wanted views that overlap nowhere in memory, got scores and a weight that share bytes");
  refused(add_saliency(score.first(8), std::span(memory).first(8), score.first(8)), "got scores and a gradient that");
  const pruned_matrix matrix{4, 4, {2, 2}};
  refused(snip_mask(matrix, score, 0.5, std::span(reinterpret_cast<uint8_t*>(scores.data()) + 8, 16)),
          "a mask of pruning: wanted views that overlap nowhere in memory, got scores and the mask that share bytes");
  BOOST_TEST(memory == std::vector<float>(32, 1.5F), boost::test_tools::per_element());
  BOOST_TEST(scores == std::vector<float>(16, 0.5F), boost::test_tools::per_element());
  BOOST_TEST(fake_quantise(two, grid, at).has_value());  // quantising in place is allowed
  BOOST_TEST(fake_quantise(two, grid, bytes_at(8)).has_value());
  BOOST_TEST(add_saliency(score.first(8), score.subspan(8), score.subspan(8)).has_value());
}

BOOST_AUTO_TEST_CASE(values_without_memory_bits_or_ranges_are_not_quantised) {
  std::vector<float> x(8, 1.5F), y(8);
  const auto* const in = reinterpret_cast<const std::byte*>(x.data());
  auto* const out = reinterpret_cast<std::byte*>(y.data());
  const grouped_values two{in, core::dtype::f32, 2, 4}, one{in, core::dtype::f32, 1, 8};
  const quantiser grid, binary{quantiser_kind::binary, 1};
  std::vector<value_range<double>> ranges(3);
  refused(fake_quantise({nullptr, core::dtype::f32, 2, 4}, grid, out), "2 groups of 4 values, got none");
  refused(fake_quantise(two, grid, nullptr), "a place for the result");
  refused(fake_quantise({in, core::dtype::i32, 2, 4}, grid, out), "values of a floating type");
  for (const uint32_t bits : {0U, 17U, 4'000'000'000U})
    refused(fake_quantise(two, {quantiser_kind::symmetric, bits}, out), fmt::format("1 to 16 bits, got {}", bits));
  refused(fake_quantise_within(two, grid, ranges, out), "one for each of 2 groups, got 3");
  refused(fake_quantise_within(two, grid, {}, out), "one for each of 2 groups, got 0");
  refused(fake_quantise_within(two, binary, std::span(ranges).first(2), out), "a quantiser with a grid");
  refused(group_ranges(two, ranges), "a range for each, got 2 groups of 4 and 3 ranges");
  refused(group_ranges({in, core::dtype::f32, 2, 0}, std::span(ranges).first(2)), "groups of at least one value");
  refused(sum_above(two, 0), "one group, or a part of one, got 2");
  refused(sum_above({nullptr, core::dtype::f32, 1, 8}, 0), "got none");
  refused(fake_quantise_by_sums(one, grid, {}, {}, out), "a ternary or binary quantiser");
  refused(fake_quantise_by_sums(two, binary, {}, {}, out), "one group, or a part of one");
  BOOST_TEST(y == std::vector<float>(8), boost::test_tools::per_element());
  BOOST_TEST(fake_quantise({}, grid, nullptr).has_value());
  BOOST_TEST(fake_quantise(two, grid, out).has_value());
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
  for (const double scale : {nan, 0.0, -2.0})
    refused(next_loss_scale({}, {.cur_scale = scale}, false), "a state with a scale above 0");
  const auto used_up = next_loss_scale({}, {.cur_scale = 8, .cur_hysteresis = 0}, true);
  BOOST_TEST_REQUIRE(used_up.has_value());
  BOOST_TEST(used_up->cur_scale == 4);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::tests
