// Tests optimizer updates before the vote (the all-gather of gradient square sums): their position in the step, their
// dependencies, and the checker's errors for wrong ones.
#include <algorithm>

#include "plan/check/check.hpp"
#include "plan/choose/cost.hpp"
#include "plan/memory_places.hpp"
#include "plan/passes/passes.hpp"
#include "tests/check_ok.hpp"
#include "tests/plan/cuts.hpp"
#include "tests/plan/reorder.hpp"
#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(speculation)

using namespace troupe::plan;
using troupe::tests::check_failed;

namespace {

plan_options ahead(uint32_t ranks, uint32_t stage, uint32_t accumulation = 1) {
  auto o = small_options(ranks, stage, accumulation);
  o.updates.speculate = true;
  return o;
}

plan_options ahead_of_a_clip(uint32_t ranks, uint32_t stage, uint32_t accumulation = 1) {
  auto o = ahead(ranks, stage, accumulation);
  o.updates.may_clip = true;
  return o;
}

plan_options in_files(uint32_t stage, uint32_t accumulation, bool gradients) {
  auto o = ahead_of_a_clip(2, stage, accumulation);
  o.tiers.optimizer = tier::nvme;
  o.tiers.parameters = stage == 3 ? tier::nvme : tier::device;
  o.tiers.swap_gradients = gradients;
  o.tiers.state_slots = 3;
  o.tiers.read_ahead = o.tiers.write_behind = o.tiers.two_places = true;
  return o;
}

uint32_t vote_of(const rank_plan& p) {
  const auto x = std::find_if(p.instructions.begin(), p.instructions.end(),
                              [](const instruction& i) { return i.kind == kind::vote; });
  return x->id;
}

std::vector<const instruction*> all_of(const rank_plan& p, kind k) {
  std::vector<const instruction*> out;
  for (const auto& x : p.instructions)
    if (x.kind == k) out.push_back(&x);
  return out;
}

/// Moves instruction `id` to another position in the order, and removes its dependencies on instructions that are later
/// now.
void move(rank_plan& p, uint32_t id, uint32_t place) {
  std::vector<uint32_t> order;
  for (const auto& x : p.instructions)
    if (x.id != id) order.push_back(x.id);
  order.insert(order.begin() + place, id);
  std::erase_if(p.instructions[id].after, [&](uint32_t on) { return on >= place; });
  reorder(p, order);
}

/// Returns a model whose unit 0 reads a frozen parameter and a parameter of unit 1. The backward of unit 0, and at
/// stage 3 the gather for it, run after the reduction of the gradient of unit 1's parameter.
shared_table read_by_a_frozen_unit() {
  table_writer w;
  w.unit({{w.parameter(9216)}});
  const uint32_t read_twice = w.parameter(9216);
  w.unit({{read_twice}});
  w.freeze({0});
  auto table = *w.done();
  table.units[0].parameters.push_back(read_twice);
  return std::make_shared<const troupe::core::model_table>(table);
}

/// Changes the last rank's plan and expects the checker's error to contain `what`.
void refused(const plan_options& o, auto change, const std::string& what) {
  auto plans = plans_of(gpt_table(2, 64, 256, true), o);
  auto broken = std::make_shared<rank_plan>(*plans.back());
  change(*broken);
  plans.back() = broken;
  check_failed(troupe::plan::check(plans), what);
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_plan_that_speculates_is_proved) {
  for (const bool tied : {false, true})
    for (uint32_t ranks = 1; ranks <= 3; ++ranks)
      for (uint32_t stage = 0; stage <= 3; ++stage)
        for (const uint32_t accumulation : {1U, 3U})
          for (const bool micro_first : {false, true})
            for (const bool saves : {false, true})
              for (const bool may_clip : {false, true})
                for (const uint64_t sub_group : {1ULL, 20'000ULL, 500'000'000ULL})
                  for (const uint64_t persistence : {0ULL, 200ULL, 1'000'000ULL}) {
                    auto o = ahead(ranks, stage, accumulation);
                    o.gradients.sum_micro_first = micro_first;
                    o.saving.on = saves;
                    o.updates.may_clip = may_clip;
                    o.updates.sub_group = sub_group;
                    o.gathering.persistence_threshold = persistence;
                    const auto proved = troupe::plan::check(plans_of(gpt_table(2, 64, 256, tied), o));
                    BOOST_TEST(proved.has_value(), "stage " << stage << ": " << (proved ? "" : proved.error().text));
                  }
}

BOOST_AUTO_TEST_CASE(plans_of_random_models_that_speculate_are_proved) {
  uint32_t proved = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) BOOST_TEST_CONTEXT("seed " << seed) {
      std::mt19937_64 random(seed);
      const auto table = random_table(random);
      auto options = random_options(*table, random);
      options.updates.speculate = true;
      options.updates.may_skip = random() % 2 == 0;
      options.updates.may_clip = random() % 2 == 0;
      options.tiers.two_places = options.tiers.swaps() && seed % 4 != 0;
      if (!make_layout(table, options)) continue;
      const auto plans = plans_of(table, options);
      const auto ok = troupe::plan::check(plans);
      BOOST_TEST(ok.has_value(), (ok ? "" : ok.error().text));
      ++proved;
    }
  BOOST_TEST(proved > 250U);
}

BOOST_AUTO_TEST_CASE(plans_of_random_cuts_that_speculate_are_proved) {
  uint32_t again = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) BOOST_TEST_CONTEXT("seed " << seed) {
      std::mt19937_64 random(seed);
      auto [table, options] = random_cut(random, mode::train);
      options.updates.speculate = true;
      options.updates.may_skip = seed % 2 == 0;
      options.updates.may_clip = seed % 3 != 0;
      const auto plans = plans_of(table, options);
      const auto ok = troupe::plan::check(plans);
      BOOST_TEST(ok.has_value(), (ok ? "" : ok.error().text));
      for (const auto& p : plans) again += all_of(*p, kind::redo).empty() ? 0 : 1;
    }
  BOOST_TEST(again > 50U);
}

BOOST_AUTO_TEST_CASE(states_in_files_are_updated_before_the_vote_if_nothing_is_undone) {
  for (const bool tied : {false, true})
    for (uint32_t stage = 1; stage <= 3; ++stage)
      for (const uint32_t accumulation : {1U, 2U})
        for (const tier parameters : {tier::device, tier::nvme})
          for (const uint32_t slots : {1U, 3U}) {
            if (parameters == tier::nvme && stage != 3) continue;
            auto o = ahead(2, stage, accumulation);
            o.tiers.optimizer = tier::nvme;
            o.tiers.parameters = parameters;
            o.tiers.state_slots = slots;
            o.tiers.read_ahead = o.tiers.write_behind = slots > 1;
            const auto table = gpt_table(4, 64, 256, tied);
            const auto updated = [&](bool before) {
              const auto plans = plans_of(table, o);
              const auto proved = troupe::plan::check(plans);
              BOOST_TEST(proved.has_value(), "stage " << stage << ": " << (proved ? "" : proved.error().text));
              const auto& p = *plans.front();
              BOOST_TEST(p.undo_bytes == 0U);
              const auto updates = all_of(p, kind::update);
              return std::all_of(updates.begin(), updates.end(),
                                 [&](const instruction* x) { return (x->id < vote_of(p)) == before; });
            };
            o.updates.may_skip = false;
            BOOST_TEST(updated(true));
            o.updates.may_skip = true;
            BOOST_TEST(updated(false));
            o.updates.may_skip = false;
            o.updates.may_clip = true;
            BOOST_TEST(updated(false));
          }
}

BOOST_AUTO_TEST_CASE(states_with_two_places_in_their_file_are_updated_before_the_vote_whatever_it_decides) {
  for (uint64_t seed = 0; seed < 120; ++seed) BOOST_TEST_CONTEXT("seed " << seed) {
      std::mt19937_64 random(seed);
      const auto coin = [&] { return random() % 2 == 0; };
      const uint32_t stage = static_cast<uint32_t>(1 + seed % 3), slots = coin() ? 3 : 1;
      auto o = in_files(stage, coin() ? 1 : 2, coin());
      o.updates.may_clip = coin();
      o.updates.may_skip = !o.updates.may_clip || coin();
      o.saving.on = coin();
      o.tiers.state_slots = slots;
      o.tiers.read_ahead = o.tiers.write_behind = slots > 1;
      o.tiers.ratio = coin() ? 1 : 0.5;
      o.tiers.resident_parameters = coin() ? 100'000 : 0;
      if (coin()) o.types.parameter = o.types.communication = troupe::core::dtype::bf16;
      const auto plans = plans_of(gpt_table(4, 64, 256, coin()), o);
      const auto proved = troupe::plan::check(plans);
      BOOST_TEST(proved.has_value(), "stage " << stage << ": " << (proved ? "" : proved.error().text));
      const auto& p = *plans.front();
      for (const auto* x : all_of(p, kind::update)) BOOST_TEST(x->id < vote_of(p));
      BOOST_TEST(all_of(p, kind::redo).size() == (o.updates.may_clip ? p.sub_groups.size() : 0));
      const bool in_memory = stage < 3 || o.tiers.ratio < 1 || o.tiers.resident_parameters > 0;
      BOOST_TEST((p.undo_bytes > 0) == in_memory);
    }
}

BOOST_AUTO_TEST_CASE(a_second_place_takes_as_many_bytes_of_the_file_as_an_update_writes) {
  for (const bool gradients : {false, true}) {
    BOOST_TEST_INFO_SCOPE("gradients " << gradients);
    auto o = in_files(3, 1, gradients);
    const auto table = gpt_table(2, 64, 256, false);
    const auto two = plans_of(table, o);
    o.tiers.two_places = o.updates.speculate = false;
    const auto one = plans_of(table, o);
    for (size_t r = 0; r < two.size(); ++r) {
      BOOST_TEST_INFO_SCOPE("r " << r);
      uint64_t written = 0;
      for (const auto& b : two[r]->blocks) written += states_written(*two[r]->layout, b).bytes;
      BOOST_TEST(two[r]->swap_file_bytes == one[r]->swap_file_bytes + written);
    }
  }
}

BOOST_AUTO_TEST_CASE(swaps_around_an_update_that_is_done_again_are_proved) {
  const auto o = in_files(3, 1, true);
  const auto again = [](kind k) {
    return [=](const rank_plan& p) -> uint32_t {
      for (const auto* x : all_of(p, k))
        if (x->repeats == repetition::redo) return x->id;
      return none;
    };
  };
  const auto in = again(kind::swap_in), out = again(kind::swap_out);
  refused(
      o, [&](rank_plan& p) { p.instructions[out(p)].guard = guard::undone; }, "done again");
  refused(
      o, [&](rank_plan& p) { p.instructions[in(p)].moved_bytes -= 4096; }, "moves the wrong number of bytes");
  refused(
      o, [&](rank_plan& p) { p.instructions[in(p)].guard = guard::always; }, "done again");
  refused(
      o,
      [&](rank_plan& p) {
        std::erase_if(p.instructions[out(p)].after, [&](uint32_t on) { return p.instructions[on].kind == kind::redo; });
      },
      "which changes what it writes");
  // If the swap file has only one copy of the states, no sub-group is updated before the gradient norm is known: the
  // update would overwrite the states that a skipped or clipped step must read again.
  auto single = o;
  single.tiers.two_places = false;
  auto plans = plans_of(gpt_table(2, 64, 256, true), single);
  for (const auto& p : plans)
    for (uint32_t g = 0; g < p->sub_groups.size(); ++g) BOOST_TEST(!p->speculates(g));
}

// The loop also covers gradients in the swap file: the states of the first sub-groups are read while backward runs.
BOOST_AUTO_TEST_CASE(the_first_sub_groups_are_read_before_the_vote_though_updates_wait_for_it) {
  for (const bool gradients : {false, true}) {
    BOOST_TEST_INFO_SCOPE("gradients " << gradients);
    auto o = in_files(3, 1, gradients);
    o.updates.speculate = o.tiers.two_places = false;
    const auto p = *plans_of(gpt_table(4, 64, 256, false), o).front();
    uint32_t early = 0;
    for (const auto* x : all_of(p, kind::swap_in)) early += x->what == swapped::states && x->id < vote_of(p) ? 1 : 0;
    BOOST_TEST(early == o.tiers.state_slots);
    const uint32_t last_backward = all_of(p, kind::backward).back()->id;
    const auto reads = all_of(p, kind::swap_in);
    const auto first = std::ranges::find(reads, swapped::states, &instruction::what);
    BOOST_TEST((*first)->id < last_backward);
    for (const auto* x : all_of(p, kind::update)) BOOST_TEST(x->id > vote_of(p));
  }
}

BOOST_AUTO_TEST_CASE(updates_in_files_hide_behind_backward) {
  auto o = in_files(3, 1, true);
  const auto table = gpt_table(8, 64, 256, false);
  auto costs = default_costs(o.types.parameter);
  costs.flops_per_s /= 100;
  const double early_s = predict(plans_of(table, o), costs).step_s;
  o.updates.speculate = o.tiers.two_places = false;
  BOOST_TEST(early_s < predict(plans_of(table, o), costs).step_s);
}

BOOST_AUTO_TEST_CASE(sub_groups_are_updated_during_backward_and_undone_after_the_vote) {
  for (uint32_t stage = 1; stage <= 3; ++stage) {
    const auto p = *plans_of(gpt_table(4, 64, 256, false), ahead(2, stage)).front();
    const uint32_t last_backward = all_of(p, kind::backward).back()->id, vote = vote_of(p);
    const auto updates = all_of(p, kind::update), undos = all_of(p, kind::undo);
    BOOST_TEST(updates.size() == p.sub_groups.size());
    BOOST_TEST(undos.size() == p.sub_groups.size());
    const auto before = [](uint32_t id) { return [id](const instruction* x) { return x->id < id; }; };
    BOOST_TEST(std::count_if(updates.begin(), updates.end(), before(last_backward)) > 3, "stage " << stage);
    BOOST_TEST(std::all_of(updates.begin(), updates.end(), before(vote)));
    BOOST_TEST(std::none_of(undos.begin(), undos.end(), before(vote)));
    for (const auto* x : updates) BOOST_TEST((x->guard == guard::always));
    for (const auto* x : undos) BOOST_TEST((x->guard == guard::skipped));
  }
}

BOOST_AUTO_TEST_CASE(a_step_that_clips_undoes_its_updates_and_does_each_again_before_it_is_published) {
  for (uint32_t stage = 1; stage <= 3; ++stage) {
    BOOST_TEST_INFO_SCOPE("stage " << stage);
    const auto p = *plans_of(gpt_table(4, 64, 256, false), ahead_of_a_clip(2, stage)).front();
    const auto undos = all_of(p, kind::undo), redos = all_of(p, kind::redo), publishes = all_of(p, kind::publish);
    BOOST_TEST_REQUIRE(undos.size() == p.sub_groups.size());
    BOOST_TEST_REQUIRE(redos.size() == p.sub_groups.size());
    for (const auto* x : undos) BOOST_TEST((x->guard == guard::undone));
    for (uint32_t g = 0; g < redos.size(); ++g) {
      BOOST_TEST_INFO_SCOPE("g " << g);
      BOOST_TEST(redos[g]->subject == g);
      BOOST_TEST((redos[g]->guard == guard::clipped));
      BOOST_TEST(redos[g]->id > undos.back()->id);
    }
    BOOST_TEST(publishes.empty() == (stage == 3));
    // Some publish sets contain no element of this rank.
    const auto waits = [&](const instruction* x) {
      return std::ranges::any_of(x->after, [&](uint32_t on) { return p.instructions[on].kind == kind::redo; });
    };
    BOOST_TEST((publishes.empty() || std::ranges::any_of(publishes, waits)));
  }
}

// The test covers plans without the undo copies that a clipped step needs, and with them.
BOOST_AUTO_TEST_CASE(a_step_that_may_be_clipped_keeps_undo_copies_though_none_is_skipped) {
  auto o = ahead(2, 3);
  o.updates.may_skip = false;
  const auto table = gpt_table(2, 64, 256, false);
  BOOST_TEST(plans_of(table, o).front()->undo_bytes == 0U);
  o.updates.may_clip = true;
  const auto clipping = plans_of(table, o);
  o.updates.may_skip = true;
  BOOST_TEST(clipping.front()->undo_bytes > 0U);
  BOOST_TEST(clipping.front()->undo_bytes == plans_of(table, o).front()->undo_bytes);
  // The plan is for steps that are predicted not to clip.
  o.updates.may_clip = false;
  const auto costs = default_costs(o.types.parameter);
  BOOST_TEST(predict(clipping, costs).step_s == predict(plans_of(table, o), costs).step_s);
}

BOOST_AUTO_TEST_CASE(updates_that_need_more_than_elements_wait_for_the_vote) {
  auto o = ahead(2, 3);
  const auto table = gpt_table(2, 64, 256, false);
  o.updates.rules.assign(table->parameters.size(), {2, update_need::elements});
  o.updates.rules[2].need = update_need::parameter_norms;
  const auto p = *plans_of(table, o).front();
  for (const auto* x : all_of(p, kind::update)) {
    const bool elements = p.sub_groups[x->subject].need == update_need::elements;
    BOOST_TEST(p.speculates(x->subject) == elements);
    BOOST_TEST((x->id < vote_of(p)) == elements);
  }
}

BOOST_AUTO_TEST_CASE(undo_copies_are_counted_as_an_owner_of_their_own) {
  const auto table = gpt_table(2, 64, 256, false);
  auto o = ahead(2, 3);
  o.types.parameter = o.types.communication = o.types.accumulation = troupe::core::dtype::bf16;
  const auto plans = plans_of(table, o);
  o.updates.speculate = false;
  const auto without = plans_of(table, o);
  for (size_t r = 0; r < plans.size(); ++r) {
    BOOST_TEST_INFO_SCOPE("r " << r);
    const auto& m = plans[r]->memory;
    uint64_t elements = 0;
    for (const auto& g : plans[r]->sub_groups) elements += g.elements;
    // An undo copy of an element has 4 bytes of master weight, 8 of two moments and 2 of the 16-bit parameter.
    BOOST_TEST(m.undo >= elements * 14);
    BOOST_TEST(m.undo <= elements * 14 + plans[r]->table().parameters.size() * 4 * 64);
    BOOST_TEST(m.total() == without[r]->memory.total() + m.undo);
    const auto owners = owners_of(m, {});
    BOOST_TEST(std::any_of(owners.begin(), owners.end(),
                           [&](const owner_bytes& x) { return x.owner == "undo copies" && x.bytes == m.undo; }));
  }
}

BOOST_AUTO_TEST_CASE(updates_hide_behind_backward) {
  const auto table = gpt_table(8, 64, 256, false);
  auto o = ahead(2, 3);
  auto costs = default_costs(o.types.parameter);
  costs.copy_bytes_per_s /= 8;  // makes the optimizer step slow
  costs.flops_per_s /= 100;
  const double speculated_s = predict(plans_of(table, o), costs).step_s;
  o.updates.speculate = false;
  BOOST_TEST(speculated_s < predict(plans_of(table, o), costs).step_s);
}

BOOST_AUTO_TEST_CASE(an_update_ahead_of_its_gradients_is_named) {
  for (const uint32_t stage : {1U, 2U, 3U})
    refused(
        ahead(2, stage), [](rank_plan& p) { move(p, all_of(p, kind::update).front()->id, 0); },
        "whose result it reads");
}

// Below ZeRO stage 3, backward reads the parameters that the update overwrites.
BOOST_AUTO_TEST_CASE(an_update_ahead_of_a_reader_of_its_parameters_is_named) {
  auto plans = plans_of(read_by_a_frozen_unit(), ahead(2, 2));
  const auto sound = troupe::plan::check(plans);
  BOOST_REQUIRE_MESSAGE(sound.has_value(), (sound ? "" : sound.error().text));
  for (auto& shared : plans) {
    auto p = std::make_shared<rank_plan>(*shared);
    auto& after = p->instructions[all_of(*p, kind::update).front()->id].after;
    std::erase_if(after, [&](uint32_t on) { return p->instructions[on].lane == lane::compute; });
    shared = p;
  }
  check_failed(troupe::plan::check(plans), "which reads the parameters it overwrites");
}

// Other ranks still read the slices that this rank's update would overwrite in shared memory.
BOOST_AUTO_TEST_CASE(an_update_ahead_of_a_gather_of_its_slices_is_named) {
  auto o = ahead(2, 3);
  o.updates.sub_group = o.gradients.reduce_bucket = 1;
  o.gathering.prefetch_bucket = 0;
  auto plans = plans_of(read_by_a_frozen_unit(), o);
  const auto sound = troupe::plan::check(plans);
  BOOST_REQUIRE_MESSAGE(sound.has_value(), (sound ? "" : sound.error().text));
  for (auto& shared : plans) {
    auto p = std::make_shared<rank_plan>(*shared);
    const auto* hasty = all_of(*p, kind::update).front();
    const uint32_t gather = all_of(*p, kind::gather).back()->id, norm = all_of(*p, kind::norm).front()->id;
    BOOST_TEST(hasty->id > gather);
    std::erase_if(p->instructions[hasty->id].after, [&](uint32_t on) { return on > norm; });
    move(*p, hasty->id, norm + 1);
    shared = p;
  }
  check_failed(troupe::plan::check(plans), "which reads the slices it overwrites");
}

BOOST_AUTO_TEST_CASE(an_update_that_is_not_undone_is_named) {
  refused(
      ahead(2, 3), [](rank_plan& p) { p.instructions[all_of(p, kind::undo).front()->id].guard = guard::not_skipped; },
      "undoes an update that has to stay");
  refused(
      ahead(2, 3), [](rank_plan& p) { p.undo_offset[0] = no_undo; }, "the undo copy of sub-group 1 starts at byte");
  refused(
      ahead(2, 3),
      [](rank_plan& p) {
        for (const auto* x : all_of(p, kind::undo)) std::erase(p.instructions[x->id].after, vote_of(p));
      },
      "when the step is skipped: ");
}

BOOST_AUTO_TEST_CASE(an_update_that_is_not_done_again_with_clipped_gradients_is_named) {
  const auto o = ahead_of_a_clip(2, 2);
  const auto guarded = [](kind k, guard g) {
    return [=](rank_plan& p) { p.instructions[all_of(p, k).front()->id].guard = g; };
  };
  refused(o, guarded(kind::redo, guard::skipped), "is not followed by an update with clipped gradients");
  refused(o, guarded(kind::redo, guard::not_skipped), "updates a second time");
  refused(o, guarded(kind::redo, guard::undone), "when the step is skipped: ");
  refused(o, guarded(kind::redo, guard::always), "updates a second time");
  refused(o, guarded(kind::undo, guard::skipped), "is not undone though the vote clips its gradients");
  refused(o, guarded(kind::undo, guard::clipped), "is not undone though the vote finds an overflow");
  refused(
      ahead_of_a_clip(2, 3),  // has no publishes, because the error would name the last undo first
      [](rank_plan& p) {
        const auto *undo = all_of(p, kind::undo).back(), *redo = all_of(p, kind::redo).front();
        std::swap(static_cast<operation&>(p.instructions[undo->id]), static_cast<operation&>(p.instructions[redo->id]));
      },
      "which restores what it changes");
  refused(
      o, [](rank_plan& p) { p.instructions[all_of(p, kind::update).front()->id].kind = kind::redo; },
      "nothing updates sub-group");
  refused(
      o, [](rank_plan& p) { p.instructions[all_of(p, kind::redo).front()->id].kind = kind::update; },
      "repeats update sub-group 0");
}

BOOST_AUTO_TEST_CASE(a_clipped_update_is_published_only_after_it_is_done_again) {
  refused(
      ahead_of_a_clip(2, 2),
      [](rank_plan& p) {
        for (const auto* x : all_of(p, kind::publish))
          std::erase_if(p.instructions[x->id].after,
                        [&](uint32_t on) { return p.instructions[on].kind == kind::redo; });
      },
      "when the gradients are clipped: ");
}

BOOST_AUTO_TEST_CASE(undo_copies_that_share_bytes_are_named) {
  refused(
      ahead(2, 1), [](rank_plan& p) { p.undo_offset[1] = p.undo_offset[0]; },
      "the undo copy of sub-group 1 starts at byte 0");
}

BOOST_AUTO_TEST_CASE(parameters_are_published_only_after_the_last_undo) {
  refused(
      ahead(2, 2),
      [](rank_plan& p) {
        for (const auto* x : all_of(p, kind::publish))
          std::erase(p.instructions[x->id].after, all_of(p, kind::undo).back()->id);
      },
      "which fails where a gradient is not finite");
}

BOOST_AUTO_TEST_SUITE_END()
