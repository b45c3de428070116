// Tests the order of samples without those that are left out, compared with a written list; and the choice of what to
// leave out, at the beginning of a run and in a run that resumes.
#include "data/left_out.hpp"

#include <rapidcheck.h>
#include <boost/test/unit_test.hpp>

#include <algorithm>

#include "data/skips.hpp"

BOOST_AUTO_TEST_SUITE(left_out)

using namespace troupe;

namespace {

std::vector<core::sample_range> drawn_ranges() {
  std::vector<core::sample_range> out;
  const auto n = *rc::gen::inRange(0, 8);
  for (int i = 0; i < n; ++i) {
    const auto begin = *rc::gen::inRange<uint64_t>(0, 300);
    out.push_back({begin, begin + *rc::gen::inRange<uint64_t>(0, 40)});
  }
  return out;
}

bool holds(const std::vector<core::sample_range>& ranges, uint64_t position) {
  return std::ranges::any_of(ranges, [&](const auto& r) { return position >= r.begin && position < r.end; });
}

/// Returns the first `count` positions that are in none of the ranges.
std::vector<uint64_t> written_down(const std::vector<core::sample_range>& ranges, size_t count) {
  std::vector<uint64_t> out;
  for (uint64_t p = 0; out.size() < count; ++p)
    if (!holds(ranges, p)) out.push_back(p);
  return out;
}

std::vector<uint64_t> positions_in(const std::vector<core::sample_range>& ranges) {
  std::vector<uint64_t> out;
  for (const auto& r : ranges)
    for (uint64_t p = r.begin; p < r.end; ++p) out.push_back(p);
  return out;
}

using decisions = std::vector<core::left_out_steps>;

decisions decided(const std::vector<data::step_span>& asked, decisions recorded, const data::batch_shape& shape) {
  auto out = data::decide_left_out(asked, std::move(recorded), shape);
  BOOST_REQUIRE_MESSAGE(out, out.error().text);
  return std::move(*out);
}

std::string refusal(const std::vector<data::step_span>& asked, decisions recorded, const data::batch_shape& shape) {
  const auto out = data::decide_left_out(asked, std::move(recorded), shape);
  return out ? "" : out.error().text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(without_ranges_every_sample_stands_at_its_own_place) {
  const data::left_out none;
  for (const uint64_t n : {uint64_t{0}, uint64_t{7}, uint64_t{1} << 60})
    BOOST_TEST_CONTEXT("n " << n) BOOST_TEST(none.position_of(n) == n);
  BOOST_TEST((none.positions(3, 4) == std::vector<core::sample_range>{{3, 7}}));
}

BOOST_AUTO_TEST_CASE(what_is_taken_is_the_order_without_the_ranges) {
  BOOST_TEST(rc::check([] {
    const auto ranges = drawn_ranges();
    const data::left_out skipped(ranges);
    const auto wanted = written_down(ranges, 400);
    for (uint64_t n = 0; n < wanted.size(); ++n) RC_ASSERT(skipped.position_of(n) == wanted[n]);
    const auto first = *rc::gen::inRange<size_t>(0, 300), count = *rc::gen::inRange<size_t>(0, 100);
    const auto got = positions_in(skipped.positions(first, count));
    RC_ASSERT(std::ranges::equal(got, std::span(wanted).subspan(first, count)));
    for (size_t i = 1; i < skipped.ranges().size(); ++i)
      RC_ASSERT(skipped.ranges()[i].begin > skipped.ranges()[i - 1].end);
  }));
}

BOOST_AUTO_TEST_CASE(steps_take_the_same_samples_however_they_are_cut) {
  BOOST_TEST(rc::check([] {
    data::batch_shape whole{.rows = 12};
    whole.skipped = data::left_out(drawn_ranges());
    const auto step = *rc::gen::inRange<uint64_t>(0, 30);
    std::vector<uint64_t> wanted;
    for (uint64_t r = 0; r < 12; ++r)
      wanted.push_back(whole.skipped.position_of(whole.first_sample_of(step, 0, 0) + r));
    for (const auto& [ranks, micros] : {std::pair{2U, 1U}, {3U, 2U}, {1U, 4U}, {6U, 2U}}) {
      data::batch_shape cut{.rows = 12 / (ranks * micros), .ranks = ranks, .micros = micros};
      cut.skipped = whole.skipped;
      std::vector<uint64_t> got;
      for (uint32_t m = 0; m < micros; ++m)
        for (uint32_t r = 0; r < ranks; ++r)
          for (uint64_t row = 0; row < cut.rows; ++row)
            got.push_back(cut.skipped.position_of(cut.first_sample_of(step, m, r) + row));
      RC_ASSERT(got == wanted);
    }
  }));
}

BOOST_AUTO_TEST_CASE(the_samples_of_steps_are_left_out_and_those_behind_them_follow) {
  const auto out = decided({{3, 4}}, {}, {.rows = 10});
  BOOST_REQUIRE(out.size() == 1U);
  BOOST_TEST((out[0].samples == std::vector<core::sample_range>{{20, 40}}));
  const data::left_out skipped{std::span<const core::left_out_steps>(out)};
  BOOST_TEST(skipped.position_of(19) == 19U);
  BOOST_TEST(skipped.position_of(20) == 40U);  // step 3 gets the samples that would otherwise belong to step 5
}

BOOST_AUTO_TEST_CASE(each_of_the_list_speaks_of_the_run_without_those_before_it) {
  // The step that spiked first gets other samples and spikes again, so its samples are left out again.
  const auto out = decided({{3, 4}, {3, 3}, {2, 3}}, {}, {.rows = 10});
  BOOST_REQUIRE(out.size() == 3U);
  BOOST_TEST((out[1].samples == std::vector<core::sample_range>{{40, 50}}));
  BOOST_TEST((out[2].samples == std::vector<core::sample_range>{{10, 20}, {50, 60}}));
}

BOOST_AUTO_TEST_CASE(a_run_that_resumes_anywhere_leaves_out_what_it_would_have_undisturbed) {
  BOOST_TEST(rc::check([] {
    const auto rows = *rc::gen::inRange<uint64_t>(1, 9);
    std::vector<data::step_span> asked;
    for (int n = *rc::gen::inRange(0, 5), i = 0; i < n; ++i) {
      const auto first = *rc::gen::inRange<uint64_t>(1, 40);
      asked.push_back({first, first + *rc::gen::inRange<uint64_t>(0, 6)});
    }
    const auto from_the_start = data::decide_left_out(asked, {}, {.rows = rows});
    RC_ASSERT(from_the_start.has_value());
    const auto done = *rc::gen::inRange<uint64_t>(0, 60);
    // The run resumes after step `done`, perhaps with another global batch.
    data::batch_shape resumed{.rows = *rc::gen::element(rows, rows + 3)};
    resumed.first_step = done;
    resumed.first_sample = done * rows;
    const auto again = data::decide_left_out(asked, *from_the_start, resumed);
    RC_ASSERT(again.has_value());
    RC_ASSERT(*again == *from_the_start);
  }));
}

BOOST_AUTO_TEST_CASE(later_steps_may_be_added_to_the_list_and_count_without_what_was_left_out) {
  const auto before = decided({{3, 4}}, {}, {.rows = 10});
  data::batch_shape resumed{.rows = 10};
  resumed.first_step = 6;
  resumed.first_sample = 60;
  const auto out = decided({{3, 4}, {8, 8}}, before, resumed);
  BOOST_REQUIRE(out.size() == 2U);
  BOOST_TEST((out[1].samples == std::vector<core::sample_range>{{90, 100}}));
}

BOOST_AUTO_TEST_CASE(what_the_run_decided_itself_stays_and_may_be_named) {
  auto recorded = decided({{9, 9}, {3, 4}}, {}, {.rows = 10});
  recorded[1].after_spike = true;
  data::batch_shape resumed{.rows = 10};
  resumed.first_step = 6;
  resumed.first_sample = 60;
  BOOST_TEST((decided({{9, 9}}, recorded, resumed) == recorded));
  BOOST_TEST((decided({{9, 9}, {3, 4}}, recorded, resumed) == recorded));
  // Step 9 has not been reached yet, so it can be removed from the list.
  const auto without = decided({}, recorded, resumed);
  BOOST_REQUIRE(without.size() == 1U);
  BOOST_TEST((without[0] == recorded[1]));
}

BOOST_AUTO_TEST_CASE(steps_right_behind_a_checkpoint_may_still_be_taken_back) {
  const auto before = decided({{7, 8}}, {}, {.rows = 10});
  data::batch_shape resumed{.rows = 10};
  resumed.first_step = 6;
  resumed.first_sample = 60;
  BOOST_TEST(decided({}, before, resumed).empty());
}

BOOST_AUTO_TEST_CASE(a_list_that_contradicts_what_was_done_is_refused) {
  const auto before = decided({{3, 4}}, {}, {.rows = 10});
  data::batch_shape resumed{.rows = 10};
  resumed.first_step = 6;
  resumed.first_sample = 60;
  BOOST_TEST(refusal({}, before, resumed) ==
             "data.skip: the samples of steps 3-4, which this run left out before step 7, are missing from the list: "
             "add them, or resume from a checkpoint of an earlier step");
  BOOST_TEST(refusal({{5, 7}}, {}, resumed) ==
             "data.skip: wanted steps after step 6, which the run has reached, got steps 5-7, which the run did not "
             "leave out: resume from a checkpoint of step 4 or of an earlier one");
  BOOST_TEST(refusal({{3, 3}}, before, resumed).starts_with("data.skip: the samples of steps 3-4"));
}

BOOST_AUTO_TEST_SUITE_END()
