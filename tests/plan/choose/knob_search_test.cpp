// Tests with invented costs which settings the search of plan/choose/knob_search.hpp ends with.
#include "plan/choose/knob_search.hpp"

#include <boost/test/unit_test.hpp>
#include <numeric>

BOOST_AUTO_TEST_SUITE(knob_search)

using namespace troupe;

namespace {

struct priced {
  uint64_t bytes;
  double saves_s;
};
/// [knob][setting]: the bytes that the setting needs, and the seconds that it saves of a step of 100 s.
using prices = std::vector<std::vector<priced>>;

constexpr double slowest_s = 100;

struct searched {
  std::vector<plan::knob> knobs;
  prices all;
  uint64_t limit;
  plan::knob_search::levels at;  // the settings that the search returned, one per knob

  searched(prices p, uint64_t bytes) : all(std::move(p)), limit(bytes) {
    for (const auto& k : all) knobs.emplace_back().settings.resize(k.size());
  }
  /// Makes the last setting of `knob` the one that hides copies, and its settings from `from` on hide copies as well.
  void hides(size_t knob, size_t from) {
    knobs[knob].settings.pop_back();
    knobs[knob].hiding_from = from;
    knobs[knob].hiding = [](plan::plan_options&) {};
  }
  [[nodiscard]] plan::fitted judged(const plan::knob_search::levels& levels) const {
    plan::fitted out;
    uint64_t bytes = 0;
    out.step_s = slowest_s;
    for (size_t k = 0; k < levels.size(); ++k) {
      bytes += all[k][levels[k]].bytes;
      out.step_s -= all[k][levels[k]].saves_s;
    }
    out.memory.gathered = bytes;
    out.missing = bytes > limit ? bytes - limit : 0;
    out.fits = out.missing == 0;
    return out;
  }
  double run(core::result<plan::fitted> (plan::knob_search::*how)(), bool hides = false) const {
    plan::knob_search search(
        knobs, [this](const auto& levels) -> core::result<plan::fitted> { return judged(levels); },
        plan::knob_search::memory::limited);
    auto found = (search.*how)();
    if (found && hides) found = search.hidden(std::move(*found));
    BOOST_REQUIRE(found.has_value());
    BOOST_TEST(found->fits);
    return found->step_s;
  }
  [[nodiscard]] double climbed() const { return run(&plan::knob_search::climbed); }
  [[nodiscard]] double traded() const { return run(&plan::knob_search::climbed_and_traded); }
  [[nodiscard]] double hidden() const { return run(&plan::knob_search::climbed_and_traded, true); }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_setting_that_saves_more_takes_the_room_of_one_that_saves_more_a_byte) {
  const searched s({{{0, 0}, {1, 2}}, {{0, 0}, {5, 5}}}, 5);
  BOOST_TEST(s.climbed() == slowest_s - 2);
  BOOST_TEST(s.traded() == slowest_s - 5);
}

BOOST_AUTO_TEST_CASE(what_does_not_help_the_step_is_not_traded_for) {
  const searched s({{{0, 0}, {1, 2}}, {{0, 0}, {5, 2}}}, 5);
  BOOST_TEST(s.traded() == slowest_s - 2);
}

BOOST_AUTO_TEST_CASE(a_knob_that_can_hide_copies_does_for_an_equal_step) {
  // Hiding copies saves 1 s of 100; the other knob's setting, which must be given up for it, saves more. The search
  // treats steps as equal if they differ by less than the fraction `worth_it`.
  for (const auto& [given_up, hides] : {std::pair{1.1, true}, {1.5, false}}) {
    searched s({{{0, 0}, {4, 1}}, {{0, 0}, {4, given_up}}}, 5);
    s.hides(0, 1);
    const double wanted = slowest_s - (hides ? 1 : given_up);
    BOOST_TEST(s.traded() == slowest_s - given_up);
    BOOST_TEST(s.hidden() == wanted);
  }
}

BOOST_AUTO_TEST_CASE(a_knob_that_hides_copies_already_stays) {
  searched s({{{0, 0}, {2, 2}, {1, 1}}}, 5);
  s.hides(0, 1);
  BOOST_TEST(s.hidden() == slowest_s - 2);
}

BOOST_AUTO_TEST_SUITE_END()
