// Copies that units multiply with instead of compressed parameters: written for each use, and every way to take a wrong
// one is refused with the instruction named.
#include <functional>
#include <string>

#include "plan/check/check.hpp"
#include "tests/plan/samples.hpp"

using namespace troupe::plan;

namespace {

/// Two blocks and a tied head; the matrices of block 0 and the shared one are compressed in every unit that reads them.
plan_options options_at(uint32_t stage, bool recomputes) {
  plan_options o;
  o.mesh = troupe::core::data_mesh(2);
  o.stage = stage;
  o.accumulation = 2;
  o.recompute = recomputes;
  o.gathering.persistence_threshold = 0;
  o.compressed.weights = {{0, 0, 0}, {1, 4, 128}, {1, 10, 0}, {3, 0, 0}};
  return o;
}

std::string verdict_of(const std::vector<rank_plan>& plans) {
  shared_plans all;
  for (const auto& p : plans) all.push_back(std::make_shared<const rank_plan>(p));
  const auto proved = check(all);
  return proved ? "passed" : proved.error().text;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(compression)

BOOST_AUTO_TEST_CASE(each_use_of_a_unit_has_its_copies_made_for_it_alone) {
  const auto table = gpt_table(2, 32, 64, /*tied=*/true);
  for (uint32_t stage = 0; stage < 4; ++stage)
    for (const bool recomputes : {false, true}) {
      const auto plans = plans_of(layout_of(table, options_at(stage, recomputes)));
      BOOST_TEST_REQUIRE(check(plans).has_value());
      const rank_plan& p = *plans[0];
      uint64_t copies = 0;
      for (const auto& x : p.instructions) {
        copies += x.kind == kind::compress;
        const bool reads = x.kind == kind::forward || x.kind == kind::recompute || x.kind == kind::backward;
        if (reads) BOOST_TEST((x.compressed != none) == (x.subject != 2), p.describe(x.id));
      }
      BOOST_TEST(copies == 3U * 2 * 2);  // units, ways, micro-batches
      // One unit at a time: the largest has the shared matrix, or block 0's two and the room of one of them.
      const uint64_t bytes = std::max<uint64_t>(64 * 32, 3 * 32 * 32 + 4 * 32 * 32 + 128) * 4;
      BOOST_TEST(p.memory.compressed == bytes);
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
  refused([&](rank_plan& p) { nth(p, kind::forward, 0).compressed = none; },
          "names no slot of its unit's compressed parameters");
  refused([&](rank_plan& p) { nth(p, kind::backward, 0).compressed = nth(p, kind::forward, 0).compressed; },
          "names a slot that does not hold the compressed parameters of its unit");
  refused([&](rank_plan& p) { nth(p, kind::compress, 1).compressed = nth(p, kind::compress, 0).compressed; },
          "repeats compress unit 0");
  refused([&](rank_plan& p) { nth(p, kind::forward, 0).buffer = nth(p, kind::forward, 3).buffer; }, "instruction");
  refused([&](rank_plan& p) { p.buffers[nth(p, kind::compress, 1).compressed].bytes += 64; },
          "has a slot that is not its own");
  // A copy that ends its life before the backward that multiplies with it.
  refused(
      [&](rank_plan& p) {
        for (const auto& x : p.instructions)
          if (x.kind == kind::recompute && x.compressed != none) {
            p.buffers[x.compressed].last = x.id;
            return;
          }
      },
      "ends the life of");
}

BOOST_AUTO_TEST_CASE(a_parameter_that_its_unit_does_not_read_is_refused) {
  plan_options o = options_at(1, false);
  o.compressed.weights = {{0, 4, 0}};
  const auto made = make_layout(gpt_table(2, 32, 64, true), o);
  BOOST_TEST_REQUIRE(!made.has_value());
  BOOST_TEST(made.error().text.find("wanted compressed parameters by unit") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
