// Checks that the checker accepts the plans of any cut of a model over tensor and sequence ranks, and finds every break
// of their exchanges.
#include <map>
#include <string>

#include "plan/check/check.hpp"
#include "plan/check/rules.hpp"
#include "plan/group_exchange.hpp"
#include "tests/plan/exchange_saboteur.hpp"
#include "tests/plan/exchange_samples.hpp"

BOOST_AUTO_TEST_SUITE(shared_cuts)

using namespace troupe;
using namespace troupe::plan;

namespace {

const std::map<std::string, bool (exchange_saboteur::*)()> breakages = {
    {"drop", &exchange_saboteur::drop},
    {"repeat", &exchange_saboteur::repeat},
    {"leave out of a recompute", &exchange_saboteur::leave_out_of_a_recompute},
    {"leave out around a recompute", &exchange_saboteur::leave_out_around_a_recompute},
    {"confuse a recompute", &exchange_saboteur::confuse_a_recompute},
    {"meet another group", &exchange_saboteur::meet_another_group},
    {"swap parts of a sequence", &exchange_saboteur::swap_parts_of_a_sequence},
    {"swap parts of a tensor group", &exchange_saboteur::swap_parts_of_a_tensor_group},
    {"drop a piece", &exchange_saboteur::drop_a_piece},
    {"repeat a piece", &exchange_saboteur::repeat_a_piece},
    {"swap pieces", &exchange_saboteur::swap_pieces},
    {"forget a piece", &exchange_saboteur::forget_a_piece},
    {"misplace a piece", &exchange_saboteur::misplace_a_piece},
    {"forget the place in the vocabulary", &exchange_saboteur::forget_the_place_in_the_vocabulary},
    {"reduce over data alone", &exchange_saboteur::reduce_over_data_alone},
    {"reduce over tensor too", &exchange_saboteur::reduce_over_tensor_too},
};

/// Breaks the list of pieces that an exchange moves; returns false if the change has no effect.
bool break_pieces(std::vector<moved_piece>& moved, std::mt19937_64& random) {
  if (moved.empty()) return false;
  moved_piece& x = moved[random() % moved.size()];
  moved_piece& y = moved[random() % moved.size()];
  switch (random() % 5) {
    case 0:  // swaps the targets of two pieces
      std::swap(x.to, y.to);
      return x.to != y.to;
    case 1:
      std::swap(x.owner, y.owner);
      std::swap(x.from, y.from);
      return x.owner != y.owner && moved.size() > 1;
    case 2:  // sets the offset of a piece to 0
      return std::exchange(x.to, 0) != 0;
    case 3:
      x.from += x.count;
      return true;
    default:
      x.count -= 1;
      return true;
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(any_cut_of_a_model_that_groups_share_is_proved) {
  std::map<core::exchange_op, uint32_t> seen;
  for (uint64_t seed = 0; seed < seeds(300); ++seed) BOOST_TEST_CONTEXT("seed " << seed) {
      std::mt19937_64 random(seed);
      const auto [table, options] = random_shared_cut(random);
      const auto plans = plans_of(table, options);
      const auto proved = check(plans);
      BOOST_TEST(proved.has_value(), options.mesh.text() << ": " << (proved ? "" : proved.error().text));
      for (const auto& x : plans.front()->instructions)
        if (x.kind == kind::exchange) ++seen[exchange_of(*plans.front()->layout, x.subject, x.segment, x.use).op];
    }
  for (const auto op : {core::exchange_op::sum, core::exchange_op::gather, core::exchange_op::swap,
                        core::exchange_op::collect, core::exchange_op::scatter}) {
    BOOST_TEST_MESSAGE(core::name_of(op) << ": " << seen[op]);
    BOOST_TEST(seen[op] >= 30U, core::name_of(op));
  }
}

BOOST_AUTO_TEST_CASE(every_break_of_an_exchange_is_caught_and_harmless_changes_pass) {
  std::map<std::string, uint32_t> caught, harmless;
  for (uint64_t seed = 0; seed < seeds(400); ++seed) {
    std::mt19937_64 random(seed);
    const auto [table, options] = random_shared_cut(random, seed % 8 == 0 ? mode::evaluate : mode::train);
    const auto whole = plans_of(table, options);
    for (const auto& [name, change] : breakages) BOOST_TEST_CONTEXT("seed " << seed << ", " << name) {
        plans broken;
        for (const auto& p : whole) broken.push_back(*p);
        exchange_saboteur breaks(broken, random);
        if (!(breaks.*change)()) continue;
        const auto now = shared(broken);
        const bool excused = breaks.excused(now);
        const auto proved = troupe::plan::check(now);
        BOOST_TEST(proved.has_value() == excused, options.mesh.text()
                                                      << ": " << (proved ? "passed" : proved.error().text));
        ++(excused ? harmless : caught)[name];
      }
  }
  for (const auto& [name, change] : breakages) {
    BOOST_TEST_MESSAGE(name << ": " << caught[name] << " caught, " << harmless[name] << " harmless");
    BOOST_TEST(caught[name] >= 50U, name << ": " << caught[name]);
  }
}

BOOST_AUTO_TEST_CASE(parts_that_change_places_or_come_twice_are_found) {
  std::map<core::exchange_op, uint32_t> caught;
  for (uint64_t seed = 0; seed < seeds(600); ++seed) {
    std::mt19937_64 random(seed);
    const auto [table, options] = random_shared_cut(random);
    const auto layout = layout_of(table, options);
    const collective_pieces all(*layout);
    for (uint32_t u = 0; u < table->units.size(); ++u)
      for (uint32_t s = 0; s < table->units[u].segments.size(); ++s) {
        instruction x;
        x.kind = kind::exchange;
        x.subject = u;
        x.segment = s;
        x.use = random() % 2 == 0 ? use::forward : use::backward;
        const auto& what = exchange_of(*layout, u, s, x.use);
        if (what.ranks == 1) continue;
        const uint32_t pieces = x.use == use::forward ? what.pieces : 1;
        x.piece = static_cast<uint32_t>(random() % pieces);
        const auto piece = pieces > 1 ? std::optional(x.piece) : std::nullopt;
        auto moved = all.exchange(x);
        BOOST_TEST(rules::exchange(*layout, what, moved, piece).has_value());
        if (!break_pieces(moved, random)) continue;
        BOOST_TEST(!rules::exchange(*layout, what, moved, piece).has_value(), core::name_of(what.op)
                                                                                  << ", seed " << seed);
        ++caught[what.op];
      }
  }
  for (const auto op : {core::exchange_op::sum, core::exchange_op::gather, core::exchange_op::swap,
                        core::exchange_op::collect, core::exchange_op::scatter}) {
    BOOST_TEST_MESSAGE(core::name_of(op) << ": " << caught[op] << " caught");
    BOOST_TEST(caught[op] >= 50U, core::name_of(op) << ": " << caught[op]);
  }
}

BOOST_AUTO_TEST_SUITE_END()
