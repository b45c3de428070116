// Tests the offloading of recomputed units' inputs until backward: the tier that stores them, the time of their return,
// the memory that they need.
#include <map>

#include "plan/check/check.hpp"
#include "plan/check/happens_before.hpp"
#include "tests/plan/saboteur.hpp"

BOOST_AUTO_TEST_SUITE(activations)

using namespace troupe::plan;
using troupe::core::model_table;

namespace {

constexpr uint64_t input_bytes = 5000, window = 8192;
constexpr uint32_t blocks = 6, head = blocks + 1;

shared_table gpt_with_inputs() {
  auto t = std::make_shared<model_table>(*gpt_table(blocks, 64, 256, false));
  for (size_t u = 1; u < t->units.size(); ++u) t->units[u].input_bytes = input_bytes;
  return t;
}

plan_options options_with(tier where, uint32_t accumulation = 1) {
  auto o = small_options(2, 1, accumulation);
  o.recompute = true;
  o.tiers.activations = where;
  return o;
}

std::vector<const instruction*> swaps_of(const rank_plan& p, kind k, uint32_t micro = 0) {
  std::vector<const instruction*> out;
  for (const auto& x : p.instructions)
    if (x.kind == k && x.what == swapped::activations && x.micro == micro) out.push_back(&x);
  return out;
}

std::vector<uint32_t> subjects(const std::vector<const instruction*>& all) {
  std::vector<uint32_t> out;
  for (const auto* x : all) out.push_back(x->subject);
  return out;
}

uint32_t last_backward(const rank_plan& p, uint32_t unit) {
  uint32_t out = none;
  for (const auto& x : p.instructions)
    if (x.kind == kind::backward && x.subject == unit) out = x.id;
  return out;
}

void require_sound(const shared_plans& all) {
  const auto ok = check(all);
  BOOST_REQUIRE_MESSAGE(ok.has_value(), (ok ? "" : ok.error().text));
}

}  // namespace

BOOST_AUTO_TEST_CASE(with_windows_for_two_the_last_two_stay_and_the_others_are_written_and_read) {
  const auto all = plans_of(gpt_with_inputs(), options_with(tier::nvme, 2));
  require_sound(all);
  const auto& p = *all[0];
  for (uint32_t micro : {0U, 1U}) {
    BOOST_TEST_INFO_SCOPE("micro " << micro);
    BOOST_TEST(subjects(swaps_of(p, kind::swap_out, micro)) == (std::vector<uint32_t>{1, 2, 3, 4, 5}),
               boost::test_tools::per_element());
    BOOST_TEST(subjects(swaps_of(p, kind::swap_in, micro)) == (std::vector<uint32_t>{5, 4, 3, 2, 1}),
               boost::test_tools::per_element());
  }
  BOOST_TEST(p.memory.offloaded_activations == 2 * window);
  BOOST_TEST(p.swap_file_bytes == head * window);
  BOOST_TEST(p.memory.swapped == p.swap_file_bytes);
  BOOST_TEST(p.memory.digests == p.swap_file_bytes / swap_page_bytes * 8);
}

BOOST_AUTO_TEST_CASE(an_input_is_read_while_the_unit_above_it_is_recomputed) {
  const auto all = plans_of(gpt_with_inputs(), options_with(tier::nvme));
  const auto order = happens_before::build(all, branch::not_skipped);
  BOOST_REQUIRE(order.has_value());
  const auto& p = *all[0];
  for (const auto* in : swaps_of(p, kind::swap_in)) {
    BOOST_TEST(order->before(0, last_backward(p, in->subject + 2), 0, in->id));
    BOOST_TEST(!order->before(0, last_backward(p, in->subject + 1), 0, in->id));
  }
}

BOOST_AUTO_TEST_CASE(on_the_host_every_input_has_a_window_of_its_own_and_no_file) {
  const auto all = plans_of(gpt_with_inputs(), options_with(tier::cpu, 3));
  require_sound(all);
  const auto& p = *all[0];
  BOOST_TEST(p.lanes[static_cast<size_t>(lane::io)].empty());
  BOOST_TEST(p.memory.offloaded_activations == head * window);
  BOOST_TEST(p.swap_file_bytes == 0U);
  for (const auto& x : p.instructions) {
    const bool uses =
        (x.kind == kind::forward && x.segment == 0) || x.kind == kind::recompute || x.kind == kind::backward;
    BOOST_TEST((x.slots.window != none) == (uses && x.subject > 0));
  }
}

BOOST_AUTO_TEST_CASE(predicted_activations_shrink_by_the_inputs_that_left) {
  const auto table = gpt_with_inputs();
  const auto memory = [&](tier where, uint32_t units) {
    auto o = options_with(where);
    o.tiers.activation_units = units;
    return plans_of(table, o)[0]->memory;
  };
  const uint64_t all = memory(tier::device, 0).activations;
  BOOST_TEST(all == 4096 + blocks * input_bytes);  // during the head's backward the inputs of all blocks are still kept
  for (uint32_t units : {1U, 3U, 5U}) {
    BOOST_TEST_INFO_SCOPE("units " << units);
    BOOST_TEST(memory(tier::cpu, units).activations == all - units * input_bytes);
    BOOST_TEST(memory(tier::nvme, units).activations == all - units * input_bytes);
    BOOST_TEST(memory(tier::cpu, units).offloaded_activations == units * window);
    BOOST_TEST(memory(tier::nvme, units).offloaded_activations == std::min(units, 2U) * window);
    BOOST_TEST(memory(tier::nvme, units).states() - memory(tier::nvme, units).digests ==
               memory(tier::device, 0).states());
  }
}

BOOST_AUTO_TEST_CASE(nothing_is_offloaded_without_recompute_and_by_plans_that_do_not_train) {
  const auto table = gpt_with_inputs();
  auto o = options_with(tier::nvme);
  o.recompute = false;
  const auto kept = plans_of(table, o);
  BOOST_TEST(kept[0]->swap_file_bytes == 0U);
  BOOST_TEST(kept[0]->memory.offloaded_activations == 0U);
  o.recompute = true;
  for (const mode m : {mode::evaluate, mode::generate}) {
    o.mode = m;
    const auto all = plans_of(table, o);
    require_sound(all);
    BOOST_TEST(all[0]->lanes[static_cast<size_t>(lane::io)].empty());
    BOOST_TEST(all[0]->memory.offloaded_activations == 0U);
    // The swap file is sized for the whole run, not for this kind of step.
    BOOST_TEST(all[0]->swap_file_bytes == head * window);
  }
}

BOOST_AUTO_TEST_CASE(extents_lie_behind_those_of_states) {
  auto o = options_with(tier::nvme);
  o.tiers.optimizer = tier::nvme;
  const auto all = plans_of(gpt_with_inputs(), o);
  require_sound(all);
  const auto& p = *all[0];
  uint64_t end = 0;
  for (const auto& b : p.blocks) end += extent_bytes(*p.layout, b);
  BOOST_TEST(end > 0U);
  for (uint32_t u = 1; u <= head; ++u) {
    BOOST_TEST_INFO_SCOPE("u " << u);
    BOOST_TEST(p.activation_extents[u].offset == end);
    end += p.activation_extents[u].bytes;
  }
  BOOST_TEST(p.swap_file_bytes == end);
}

BOOST_AUTO_TEST_CASE(every_break_of_their_swaps_is_caught) {
  const std::map<std::string, bool (saboteur::*)()> breakages = {
      {"drop a swap", &saboteur::drop_an_activation_swap},
      {"change a window", &saboteur::change_a_window_of_activations},
      {"move an extent", &saboteur::move_an_extent_of_activations},
      {"drop a dependency", &saboteur::drop_dependency_of_activations},
  };
  std::map<std::string, uint32_t> caught;
  for (uint64_t seed = 2000; seed < 2300; ++seed) {
    std::mt19937_64 random(seed);
    const auto table = random_table(random);
    auto o = random_options(*table, random);
    o.mode = mode::train;
    o.recompute = true;
    o.tiers.activations = random() % 4 == 0 ? tier::cpu : tier::nvme;
    o.tiers.activation_units = 0xFFFFFFFF;
    o.tiers.activation_slots = 1;
    if (!make_layout(table, o)) continue;
    const auto whole = plans_of(table, o);
    require_sound(whole);
    for (const auto& [name, change] : breakages) BOOST_TEST_CONTEXT("seed " << seed << ", " << name) {
        plans broken;
        for (const auto& p : whole) broken.push_back(*p);
        saboteur s(broken[random() % broken.size()], random);
        random.discard(16);
        if (!(s.*change)()) continue;
        const auto now = shared(broken);
        const auto proved = check(now);
        BOOST_TEST(proved.has_value() == s.excused(now), (proved ? "passed" : proved.error().text));
        if (!proved) ++caught[name];
      }
  }
  for (const auto& [name, change] : breakages) BOOST_TEST(caught[name] >= 50U, name << ": " << caught[name]);
}

BOOST_AUTO_TEST_SUITE_END()
