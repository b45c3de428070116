// Tests the compressed copies of weights that units multiply with: a copy is written for each use, and the checker
// refuses every wrong copy and names the instruction.
#include <array>
#include <functional>
#include <map>
#include <random>
#include <string>

#include "plan/check/check.hpp"
#include "tests/plan/compression_saboteur.hpp"
#include "tests/plan/tied_samples.hpp"

BOOST_AUTO_TEST_SUITE(compression)

using namespace troupe;
using namespace troupe::plan;

namespace {

/// Returns options for two blocks and a tied head; the matrices of block 0 and the tied matrix are compressed in every
/// unit that reads them.
plan_options options_at(uint32_t stage, bool recomputes) {
  plan_options o;
  o.mesh = troupe::core::data_mesh(2);
  o.stage = stage;
  o.accumulation = 2;
  o.recompute = recomputes;
  o.gathering.persistence_threshold = 0;
  o.compressed.weights = {{0, 0, 0, 40}, {1, 4, 128, 8}, {1, 10, 0}, {3, 0, 0}};
  return o;
}

void proved(const shared_plans& plans) {
  const auto verdict = check(plans);
  BOOST_REQUIRE_MESSAGE(verdict.has_value(), (verdict ? "" : verdict.error().text));
}

/// Returns the plans of two tensor ranks by two data ranks. Tensor ranks share quantisation groups in units 1 and 3;
/// the value ranges of unit 3 are exchanged twice.
shared_plans tensor_plans(uint32_t stage, bool recomputes) {
  auto o = options_at(stage, recomputes);
  o.mesh = {{core::axis::shard, 2}, {core::axis::tensor, 2}};
  o.compressed.weights = {{0, 0, 0}, {1, 4, 128, 0, 8}, {1, 10, 0, 0, 1}, {3, 0, 0, 0, 3, true}};
  return plans_of(layout_of(gpt_table(2, 32, 64, /*tied=*/true), o));
}

std::string verdict_of(const std::vector<rank_plan>& plans) {
  shared_plans all;
  for (const auto& p : plans) all.push_back(std::make_shared<const rank_plan>(p));
  const auto proved = check(all);
  return proved ? "passed" : proved.error().text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_use_of_a_unit_has_copies_of_the_parameters_that_it_reads) {
  const auto table = gpt_table(2, 32, 64, /*tied=*/true);
  for (uint32_t stage = 0; stage < 4; ++stage)
    for (const bool recomputes : {false, true}) {
      BOOST_TEST_INFO_SCOPE("recomputes " << recomputes);
      BOOST_TEST_INFO_SCOPE("stage " << stage);
      const auto plans = plans_of(layout_of(table, options_at(stage, recomputes)));
      BOOST_TEST_REQUIRE(check(plans).has_value());
      const rank_plan& p = *plans[0];
      uint64_t copies = 0;
      for (const auto& x : p.instructions) {
        copies += x.kind == kind::compress;
        const bool reads = x.kind == kind::forward || x.kind == kind::recompute || x.kind == kind::backward;
        if (reads) BOOST_TEST((x.slots.compressed != none) == (x.subject != 2), p.describe(x.id));
      }
      // The count is units x passes (forward, backward) x micro-batches. Below stage 3 a copy stays valid from one use
      // of a unit to the next: the head's from forward to backward, the first unit's from one micro-batch to the next.
      BOOST_TEST(copies == 3U * 2 * 2 - (stage < 3 ? 3 : 0));
      // Only one unit has copies at a time. The largest unit has the copy of the tied matrix, or the copies of block
      // 0's two matrices and the scratch memory to compress one of them.
      const uint64_t bytes = std::max<uint64_t>(64 * 32, 3 * 32 * 32 + 4 * 32 * 32 + 128) * 4;
      BOOST_TEST(p.memory.compressed == bytes);
      BOOST_TEST(p.memory.masks == 48U);
    }
}

BOOST_AUTO_TEST_CASE(a_use_without_its_copies_or_with_those_of_another_is_refused) {
  const auto table = gpt_table(2, 32, 64, /*tied=*/true);
  const auto refused = [&](const std::function<void(rank_plan&)>& change, const std::string& what) {
    std::vector<rank_plan> plans;
    for (const auto& p : plans_of(layout_of(table, options_at(3, true)))) plans.push_back(*p);
    BOOST_TEST_REQUIRE(verdict_of(plans) == "passed");
    for (auto& p : plans) change(p);
    const std::string text = verdict_of(plans);
    BOOST_TEST(text.find(what) != std::string::npos, text << " does not say: " << what);
  };
  const auto nth = [](rank_plan& p, kind k, size_t n) -> instruction& {
    for (auto& x : p.instructions)
      if (x.kind == k && x.subject != 2 && n-- == 0) return x;
    throw std::logic_error("no such instruction");
  };
  refused([&](rank_plan& p) { nth(p, kind::forward, 0).slots.compressed = none; },
          "names no slot of its unit's compressed parameters");
  refused([&](rank_plan& p) { nth(p, kind::backward, 0).slots.compressed = nth(p, kind::forward, 0).slots.compressed; },
          "names a slot that does not hold the compressed parameters of its unit");
  refused(
      [&](rank_plan& p) { nth(p, kind::compress, 1).slots.compressed = nth(p, kind::compress, 0).slots.compressed; },
      "repeats compress unit 0");
  refused([&](rank_plan& p) { nth(p, kind::forward, 0).slots.parameters = nth(p, kind::forward, 3).slots.parameters; },
          "instruction");
  refused([&](rank_plan& p) { p.buffers[nth(p, kind::compress, 1).slots.compressed].bytes += 64; },
          "has a slot that is not its own");
  // The slot of the copy ends before the backward that multiplies with it.
  refused(
      [&](rank_plan& p) {
        for (const auto& x : p.instructions)
          if (x.kind == kind::recompute && x.slots.compressed != none) {
            p.buffers[x.slots.compressed].last = x.id;
            return;
          }
      },
      "ends the life of");
}

BOOST_AUTO_TEST_CASE(uses_that_take_turns_segment_by_segment_share_their_copies) {
  const auto table = gpt_table(4, 32, 64, /*tied=*/false);
  auto o = staged_per_use(*table, "dual_pipe_v", {2, 2, 4}, 1, 0);
  for (uint32_t u = 0; u < table->units.size(); ++u)
    for (const uint32_t q : table->units[u].parameters)
      if (table->parameters[q].shape.size() == 2) o.compressed.weights.push_back({u, q, 0});
  const auto plans = plans_of(layout_of(table, o));
  proved(plans);
  std::map<std::array<uint32_t, 3>, uint64_t> copies;  // number of compressions, by unit, micro-batch and pass
  uint64_t in_turns = 0;
  for (const auto& p : plans)
    for (const auto& x : p->instructions) {
      const std::array<uint32_t, 3> key{x.subject, x.micro, static_cast<uint32_t>(way_of(x.use))};
      if (x.kind == kind::compress && ++copies[key] > 1) ++in_turns;
    }
  // Each pass through a unit compresses its weights once, even if its segments alternate with those of another pass.
  BOOST_TEST(in_turns == 0U);
}

// A separate weight part of backward would read the parameters, which may be released by then.
BOOST_AUTO_TEST_CASE(a_unit_whose_masks_are_learned_goes_backward_at_once) {
  const auto table = gpt_table(4, 32, 64, /*tied=*/false);
  for (const char* schedule : {"zb_h1", "zb_v"}) {
    BOOST_TEST_INFO_SCOPE(schedule);
    auto o = staged_per_use(*table, schedule, {2, std::string(schedule) == "zb_v" ? 2U : 1U, 4}, 1, 0);
    o.compressed.weights = {{.unit = 4, .parameter = table->units[4].parameters[2], .mask_bytes = 40, .learns = true}};
    const auto plans = plans_of(layout_of(table, o));
    proved(plans);
    std::map<uint32_t, uint64_t> parts;  // number of weight parts, by unit
    for (const auto& p : plans)
      for (const auto& x : p->instructions) {
        if (x.kind == kind::backward_weight) ++parts[x.subject];
        if (x.kind == kind::backward && x.subject == 4) BOOST_TEST((x.use == use::backward), p->describe(x.id));
      }
    BOOST_TEST(!parts.contains(4));
    BOOST_TEST(parts.contains(5));  // a unit of the same stage that has no learned masks
  }
}

BOOST_AUTO_TEST_CASE(tensor_ranks_agree_on_ranges_once_a_step_before_the_first_use) {
  const auto plans = tensor_plans(2, false);
  proved(plans);
  const rank_plan& p = *plans[0];
  std::map<uint32_t, uint64_t> surveys, agreements;
  for (const auto& x : p.instructions) {
    if (x.kind == kind::survey) ++surveys[x.subject];
    if (x.kind != kind::agree) continue;
    ++agreements[x.subject];
    BOOST_TEST(x.moved_bytes == 2 * p.options().compressed.range_bytes(x.subject));
    BOOST_TEST(p.layout->communicators[x.communicator].members.size() == 2U);
  }
  // {unit, exchanges}; tensor ranks share no groups of unit 0.
  const std::map<uint32_t, uint64_t> wanted = {{1, 1}, {3, 2}};
  BOOST_TEST((surveys == wanted && agreements == wanted));
}

BOOST_AUTO_TEST_CASE(every_break_of_copies_and_ranges_is_caught) {
  using change = bool (compression_saboteur::*)();
  const std::map<std::string, change> breakages = {
      {"drop a copy", &compression_saboteur::drop_a_copy},
      {"drop a survey", &compression_saboteur::drop_a_survey},
      {"drop an agreement", &compression_saboteur::drop_an_agreement},
      {"another use's copy", &compression_saboteur::multiply_with_a_copy_of_another_use},
      {"no copy", &compression_saboteur::multiply_without_a_copy},
      {"compress another unit", &compression_saboteur::compress_another_unit},
      {"survey another unit", &compression_saboteur::survey_another_unit},
      {"agree on another unit", &compression_saboteur::agree_on_another_unit},
      {"reuse too early", &compression_saboteur::reuse_a_copy_too_early},
      {"compress too early", &compression_saboteur::compress_before_the_ranges_are_agreed},
      {"agree too early", &compression_saboteur::agree_before_the_survey},
      {"other ranges", &compression_saboteur::compress_with_other_ranges},
      {"tell before all have told", &compression_saboteur::tell_again_before_the_ranges_are_agreed},
      {"tell without the others", &compression_saboteur::tell_again_without_the_ranges},
      {"a smaller slot", &compression_saboteur::take_a_smaller_slot}};
  std::map<std::string, uint32_t> caught;
  std::mt19937_64 random(19);
  for (const uint32_t stage : {0U, 2U, 3U})
    for (const bool recomputes : {false, true}) {
      const auto sound = tensor_plans(stage, recomputes);
      proved(sound);
      for (int i = 0; i < 15; ++i)
        for (const auto& [what, change] : breakages) {
          std::vector<rank_plan> all;
          for (const auto& p : sound) all.push_back(*p);
          compression_saboteur s(all, random);
          if (!(s.*change)()) continue;
          const auto now = shared(all);
          if (check(now).has_value()) {
            BOOST_TEST(s.excused(now), what << " at stage " << stage << " passed");
            continue;
          }
          ++caught[what];
        }
    }
  for (const auto& [what, change] : breakages) BOOST_TEST(caught[what] >= 50U, what << ": " << caught[what]);
}

BOOST_AUTO_TEST_CASE(a_parameter_that_its_unit_does_not_read_is_refused) {
  plan_options o = options_at(1, false);
  o.compressed.weights = {{0, 4, 0}};
  const auto made = make_layout(gpt_table(2, 32, 64, true), o);
  BOOST_TEST_REQUIRE(!made.has_value());
  BOOST_TEST(made.error().text.find("wanted compressed parameters by unit") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
