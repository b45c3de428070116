// Tests which passes compile() chooses for the shortest step under a memory limit, and how it describes the effect of
// each pass.
#include "plan/choose/compile.hpp"

#include <fmt/format.h>

#include "models/table/model_spec.hpp"
#include "plan/check/check.hpp"
#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(compile)

using namespace troupe;
using namespace troupe::plan;

namespace {

std::vector<std::string> all_names() {
  std::vector<std::string> out;
  for (const auto& x : option_passes()) out.emplace_back(x.name);
  return out;
}

compile_request request_of(uint32_t ranks, uint32_t stage) {
  compile_request out;
  out.table = gpt_table(8, 64, 256, false);
  out.base = small_options(ranks, stage, 2);
  out.passes = all_names();
  return out;
}

compiled_step compiled_by(const compile_request& r) {
  auto out = troupe::plan::compile(r);
  BOOST_REQUIRE_MESSAGE(out.has_value(), (out ? "" : out.error().text));
  return std::move(*out);
}

}  // namespace

BOOST_AUTO_TEST_CASE(without_a_limit_no_step_becomes_slower) {
  for (uint32_t stage = 0; stage <= 3; ++stage)
    for (uint32_t ranks = 1; ranks <= 3; ++ranks) {
      BOOST_TEST_INFO_SCOPE("ranks " << ranks);
      BOOST_TEST_INFO_SCOPE("stage " << stage);
      const auto x = compiled_by(request_of(ranks, stage));
      BOOST_TEST(x.chosen.step_s <= x.base.step_s);
      BOOST_TEST(x.gains.size() == option_passes().size());
    }
}

BOOST_AUTO_TEST_CASE(a_limit_is_kept_to_by_the_shortest_step_that_does) {
  auto r = request_of(2, 3);
  const uint64_t plain = compiled_by(r).base.memory.total();
  double before_s = 0;
  for (const uint64_t percent : {100, 95, 90, 85}) {
    BOOST_TEST_INFO_SCOPE("percent " << percent);
    r.limits.total = plain * percent / 100;
    const auto x = compiled_by(r);
    BOOST_TEST(x.chosen.fits, percent);
    BOOST_TEST(x.chosen.memory.total() <= r.limits.total);
    // A tighter memory limit makes no step faster, except for gains below the search's threshold.
    BOOST_TEST(x.chosen.step_s >= 0.99 * before_s);
    before_s = x.chosen.step_s;
    const auto proved = check(plans_of(r.table, x.chosen.options));
    BOOST_TEST(proved.has_value(), (proved ? "" : proved.error().text));
  }
  r.limits.total = 1;
  BOOST_TEST(!compiled_by(r).chosen.fits);
}

// Keeping a part of each unit's activations and recomputing the rest saves the same bytes in less time than recomputing
// whole units.
BOOST_AUTO_TEST_CASE(units_keep_less_before_they_are_computed_again_and_the_last_one_never_is) {
  auto r = request_of(1, 0);
  auto table = *r.table;
  for (auto& unit : table.units)
    for (auto& s : unit.segments) s.forward_flops = 1e10, s.saved_bytes = 1 << 20;
  for (size_t u = 1; u + 1 < table.units.size(); ++u)
    for (auto& s : table.units[u].segments) s.light = {1 << 18, 3 << 18, 5e9};
  r.table = std::make_shared<const troupe::core::model_table>(table);
  r.passes = {"recompute"};
  const auto plain = compiled_by(r);
  BOOST_TEST((plain.chosen.options.light_before == segment_place()));
  const uint64_t rest = plain.base.memory.total() - plain.base.memory.activations;
  for (const uint64_t megabytes : {15, 12, 8}) {
    BOOST_TEST_INFO_SCOPE("megabytes " << megabytes);
    r.limits.total = rest + (megabytes << 20);
    const auto x = compiled_by(r);
    BOOST_TEST(x.chosen.fits);
    BOOST_TEST((x.chosen.options.light_before != segment_place()));
    BOOST_TEST(!x.chosen.options.recompute);
  }
  r.limits.total = rest + (4 << 20);
  const auto least = compiled_by(r);
  BOOST_TEST(least.chosen.fits);
  BOOST_TEST(least.chosen.options.recompute);
  BOOST_TEST(!least.chosen.options.recomputes(static_cast<uint32_t>(table.units.size() - 1)));
}

BOOST_AUTO_TEST_CASE(every_choice_of_units_that_stay_or_recompute_is_proved) {
  std::mt19937_64 random(3);
  const auto below = [&](uint64_t n) { return static_cast<uint32_t>(random() % n); };
  for (int k = 0; k < 60; ++k) {
    const auto model = random_table(random, 3);
    auto o = small_options(below(3) + 1, below(4), below(3) + 1);
    o.recompute = true;
    for (uint32_t u = 0; u < model->units.size(); ++u) {
      if (random() % 2 == 0) o.kept_units.push_back(u);
      if (random() % 2 == 0) o.gathering.resident_units.push_back(u);
    }
    o.tiers.activations = random() % 2 == 0 ? tier::device : tier::cpu;
    if (random() % 2 == 0) o.gathering.hidden = {static_cast<double>(random() % 9'000'000), 0};
    const auto layout = make_layout(model, o);
    if (!layout) continue;
    const auto proved = check(plans_of(model, o));
    BOOST_TEST(proved.has_value(), k << ": " << (proved ? "" : proved.error().text));
  }
}

/// Returns a request for two tensor ranks, on which an exchange takes as long as the product before it.
compile_request request_over_tensor_ranks() {
  auto model = models::make_model_table(
      *models::parse_model_spec(R"({"model_type": "gpt2", "n_layer": 4, "n_embd": 64, "n_head": 4, "n_positions": 64,
                                    "vocab_size": 256, "tie_word_embeddings": false})"),
      2, 64, 4, {.degree = 2});
  compile_request out;
  out.base = small_options(1, 0, 2);
  out.base.mesh = {{core::axis::tensor, 2}};
  out.base.updates.rules.assign(model.parameters.size(), parameter_update{});
  const auto& exchange = model.units[1].segments[1].output;
  out.costs.copy_bytes_per_s = 2 * static_cast<double>(exchange.bytes) * out.costs.flops_per_s / exchange.flops;
  out.costs.latency_s = 0;
  out.table = std::make_shared<const core::model_table>(std::move(model));
  return out;
}

BOOST_AUTO_TEST_CASE(exchanges_are_split_where_that_saves_time_and_the_pass_says_that_bits_may_change) {
  auto r = request_over_tensor_ranks();
  r.passes = {"split_exchanges"};
  const auto split = compiled_by(r);
  BOOST_TEST(split.chosen.options.exchange_pieces > 1U);
  // The exchange after the MLP takes as long as the product before it, the exchange after attention takes longer. The
  // time of all pieces of the products is therefore hidden, except the time of the last piece.
  const auto& block = r.table->units[1].segments;
  const double products_s = 2 * 4 * (block[0].output.flops + block[1].output.flops) / r.costs.flops_per_s;
  const double hidden = 1 - 1.0 / split.chosen.options.exchange_pieces;
  BOOST_TEST(split.base.step_s - split.chosen.step_s == hidden * products_s, boost::test_tools::tolerance(0.02));
  BOOST_TEST(split.gains.front().change == fmt::format("in {} pieces", split.chosen.options.exchange_pieces));
  const auto proved = check(plans_of(r.table, split.chosen.options));
  BOOST_TEST(proved.has_value(), (proved ? "" : proved.error().text));
  for (const auto& x : option_passes()) BOOST_TEST(x.keeps_bits == (x.name != "split_exchanges"), x.name);
  r.base.mesh = {{core::axis::shard, 2}};
  BOOST_TEST(compiled_by(r).chosen.options.exchange_pieces == 1U);
}

BOOST_AUTO_TEST_CASE(an_unknown_pass_is_refused_with_the_known_ones) {
  auto r = request_of(1, 0);
  r.passes = {"prefetch", "magic"};
  const auto x = troupe::plan::compile(r);
  BOOST_REQUIRE(!x.has_value());
  BOOST_TEST(x.error().text ==
             "wanted passes among prefetch, selective_gather, recompute, offload_activation, "
             "offload_optimizer, fuse_buckets, overlap_exchanges, split_exchanges, got magic");
}

BOOST_AUTO_TEST_SUITE_END()
