// Tests which units stay gathered, on four units A B C D of 1000 elements each, used A B C D D C B A: a sequence that
// is small enough to follow by hand.
#include "plan/passes/prefetch.hpp"

#include <fmt/format.h>

#include "plan/check/check.hpp"
#include "plan/schedule/uses.hpp"
#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(prefetch)

using namespace troupe::plan;

namespace {

using uses = std::vector<uint32_t>;

struct played : troupe::plan::residency {
  uint64_t peak_live_elements = 0;  ///< the largest number of gathered elements at any time in the resulting plan
};

played play(const plan_options& o, const std::vector<uint64_t>& numels = {1000, 1000, 1000, 1000}) {
  const auto p = plans_of(chain_table(numels), o)[0];
  return {plan_residency(*p->layout, uses_of(*p)), p->peak_live_elements};
}

plan_options nothing_ahead() {
  auto o = small_options(1, 3);
  o.gathering.prefetch_bucket = 0;
  return o;
}

bool gathers(const troupe::plan::residency& r, const std::vector<uses>& wanted) { return r.gathers_at == wanted; }
bool releases_after(const troupe::plan::residency& r, const uses& wanted) {
  uses got;
  for (uint32_t i = 0; i < r.release_after.size(); ++i)
    if (r.release_after[i]) got.push_back(i);
  return got == wanted;
}

}  // namespace

BOOST_AUTO_TEST_CASE(uses_go_forward_in_order_and_backward_in_reverse_for_each_micro_batch) {
  const auto p = plans_of(chain_table({1000, 1000}), small_options(1, 3, 2))[0];
  std::vector<std::string> got;
  for (const auto& u : uses_of(*p))
    got.push_back(fmt::format("{}{}{}", u.micro, u.kind == use::forward ? "f" : "b", u.unit));
  const std::vector<std::string> wanted = {"0f0", "0f1", "0b1", "0b0", "1f0", "1f1", "1b1", "1b0"};
  BOOST_TEST(got == wanted, boost::test_tools::per_element());
  auto o = small_options(1, 3, 2);
  o.mode = mode::evaluate;
  BOOST_TEST(uses_of(*plans_of(chain_table({1000, 1000}), o)[0]).size() == 4U);
}

BOOST_AUTO_TEST_CASE(without_prefetch_and_reuse_every_use_gathers_and_releases) {
  const auto r = play(nothing_ahead());
  BOOST_TEST(gathers(r, {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}));
  BOOST_TEST(releases_after(r, {0, 1, 2, 3, 4, 5, 6, 7}));
  BOOST_TEST(r.gathered_for == (uses{0, 1, 2, 3, 4, 5, 6, 7}), boost::test_tools::per_element());
  BOOST_TEST(r.peak_live_elements == 1000U);
}

// DeepSpeed checks the budget before it adds a unit, so one unit may exceed it. A unit that is still gathered adds
// nothing to the budget and is kept for the use that prefetching skipped.
BOOST_AUTO_TEST_CASE(prefetch_may_overshoot_its_budget_by_one_unit_and_passes_over_resident_units) {
  auto o = nothing_ahead();
  o.gathering.prefetch_bucket = 1500;
  const auto r = play(o);
  BOOST_TEST(gathers(r, {{0, 1, 2}, {3, 7}, {}, {}, {}, {}, {}, {}}));
  BOOST_TEST(releases_after(r, {0, 4, 5, 6, 7}));
  BOOST_TEST(r.gathered_for == (uses{0, 1, 2, 3, 3, 2, 1, 7}), boost::test_tools::per_element());
  BOOST_TEST(r.peak_live_elements == 4000U);
}

BOOST_AUTO_TEST_CASE(a_budget_of_exactly_one_unit_takes_one) {
  auto o = nothing_ahead();
  o.gathering.prefetch_bucket = 1000;
  BOOST_TEST(gathers(play(o), {{0, 1}, {2}, {3}, {5}, {6}, {7}, {}, {}}));
}

BOOST_AUTO_TEST_CASE(without_overlap_nothing_is_prefetched) {
  auto o = nothing_ahead();
  o.gathering.prefetch_bucket = 1'000'000;
  o.overlap = false;
  BOOST_TEST(gathers(play(o), {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}));
}

BOOST_AUTO_TEST_CASE(max_live_limits_prefetch_but_never_a_fetch) {
  auto o = nothing_ahead();
  o.gathering.prefetch_bucket = 1'000'000;
  o.gathering.max_live = 2000;
  const auto two = play(o);
  BOOST_TEST(gathers(two, {{0, 1}, {2}, {3}, {5}, {}, {6}, {7}, {}}), "C and D leave no room while D is used backward");
  BOOST_TEST(two.peak_live_elements == 2000U);
  o.gathering.max_live = 0;
  const auto none_ahead = play(o);
  BOOST_TEST(gathers(none_ahead, {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}));
  BOOST_TEST(none_ahead.peak_live_elements == 1000U);
}

// The reuse distance counts the elements of the uses in between, but not those of the use that reaches the limit.
BOOST_AUTO_TEST_CASE(a_unit_used_again_within_the_reuse_distance_is_kept) {
  auto o = nothing_ahead();
  o.gathering.max_reuse_distance = 1;
  BOOST_TEST(releases_after(play(o), {0, 1, 2, 4, 5, 6, 7}), "D is used again at once");
  o.gathering.max_reuse_distance = 2000;
  BOOST_TEST(releases_after(play(o), {0, 1, 2, 4, 5, 6, 7}), "C is used again after 2000 elements");
  o.gathering.max_reuse_distance = 2001;
  const auto r = play(o);
  BOOST_TEST(releases_after(r, {0, 1, 4, 5, 6, 7}));
  BOOST_TEST(gathers(r, {{0}, {1}, {2}, {3}, {}, {}, {6}, {7}}));
}

BOOST_AUTO_TEST_CASE(a_large_reuse_distance_gathers_each_unit_once_and_releases_all_by_the_end) {
  auto o = nothing_ahead();
  o.accumulation = 3;
  o.gathering.max_reuse_distance = 1'000'000'000;
  const auto r = play(o);
  size_t gathered = 0;
  for (const auto& g : r.gathers_at) gathered += g.size();
  BOOST_TEST(gathered == 4U);
  BOOST_TEST(releases_after(r, {20, 21, 22, 23}));
  BOOST_TEST(r.peak_live_elements == 4000U);
}

BOOST_AUTO_TEST_CASE(units_without_parameters_of_their_own_are_passed_over) {
  auto o = nothing_ahead();
  o.gathering.persistence_threshold = 100;
  o.gathering.prefetch_bucket = 1000;
  const auto r = play(o, {1000, 100, 1000});
  BOOST_TEST(gathers(r, {{0, 2}, {5}, {}, {}, {}, {}}));
  BOOST_TEST(r.gathered_for[1] == none);
  BOOST_TEST(r.peak_live_elements == 3000U - 1000 + 100, "A and C, and what is always resident");
}

BOOST_AUTO_TEST_CASE(nothing_is_gathered_below_stage_3) {
  const auto r = play(small_options(1, 2));
  BOOST_TEST(gathers(r, std::vector<uses>(8)));
  BOOST_TEST(releases_after(r, {}));
  BOOST_TEST(r.peak_live_elements == 0U);
}

// Each computation has 1e6 flops in forward and more in backward.
BOOST_AUTO_TEST_CASE(gathers_are_as_late_as_so_much_computation_hides_them) {
  auto o = nothing_ahead();
  const auto live = [&](double flops, double flops_per_byte = 0) {
    o.gathering.hidden = {flops, flops_per_byte};
    return play(o).peak_live_elements;
  };
  BOOST_TEST(live(0) == 1000U);
  BOOST_TEST(live(1) == 2000U);
  BOOST_TEST(live(1e6) == 2000U);
  BOOST_TEST(live(1e6 + 1) == 3000U);
  BOOST_TEST(live(2e6 + 1) == 4000U);
  BOOST_TEST(live(0, 1e6 / 4000) == 2000U);  // one computation's flops per byte of a unit
  BOOST_TEST(live(0, 1.1e6 / 4000) == 3000U);
  o.overlap = false;
  BOOST_TEST(live(2e6 + 1) == 1000U);
}

BOOST_AUTO_TEST_CASE(wherever_a_gather_stands_then_so_much_computation_is_behind_it_and_no_more) {
  std::mt19937_64 random(11);
  size_t looked_at = 0;
  for (int k = 0; k < 400; ++k) {
    auto o = small_options(1 + static_cast<uint32_t>(random() % 3), 3, 1 + static_cast<uint32_t>(random() % 3));
    o.gathering.max_reuse_distance = random() % 2;
    o.gathering.prefetch_bucket = 10'000'000;  // this setting is ignored
    o.gathering.hidden = {static_cast<double>(random() % 3'000'000), static_cast<double>(random() % 40)};
    o.recompute = random() % 2 == 0;
    const auto model = random_table(random, 3);
    const auto layout = make_layout(model, o);
    if (!layout) continue;
    const auto plans = plans_of(*layout);
    const auto proved = check(plans);
    BOOST_TEST(proved.has_value(), k << ": " << (proved ? "" : proved.error().text));
    for (const auto& p : plans) {
      const auto& computed = p->lanes[static_cast<size_t>(lane::compute)];
      for (const auto& x : p->instructions) {
        if (x.kind != kind::gather || x.after.size() != 1) continue;
        // A gather must not overtake the next one, so it may start earlier than its own computation requires.
        const auto next = std::find_if(p->instructions.begin() + x.id + 1, p->instructions.end(),
                                       [](const instruction& y) { return y.kind == kind::gather; });
        if (next != p->instructions.end() && !next->after.empty() && next->after[0] <= x.after[0]) continue;
        const double lead =
            o.gathering.hidden.flops + o.gathering.hidden.flops_per_byte * static_cast<double>(x.moved_bytes);
        // `between` sums the flops from the gather's dependency to its use; `first` has the flops of the first
        // computation.
        double between = 0, first = -1;
        for (const uint32_t c : computed) {
          const auto& y = p->instructions[c];
          if (y.subject == x.subject && c > x.id && y.kind != kind::release) break;
          if (c <= x.after[0]) continue;
          if (first < 0 && y.flops > 0) first = y.flops;
          between += y.flops;
        }
        if (first < 0) continue;
        BOOST_TEST(between - first < lead);
        ++looked_at;
      }
    }
  }
  BOOST_TEST(looked_at > 500U);
}

BOOST_AUTO_TEST_SUITE_END()
