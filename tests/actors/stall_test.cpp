// Tests the message about a rank that does not progress: which lane is in which instruction, and for which ranks it
// waits.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include "tests/actors/ranks.hpp"
#include "tests/plan/pipeline_samples.hpp"

using namespace troupe;
using namespace troupe::actors;

namespace {

struct fixture {
  std::shared_ptr<const plan::rank_plan> p = small_plans(3, 3).front();
  std::shared_ptr<step_context> context = context_of(p, order());
  static step_order order() {
    step_order o;
    o.collectives_before = {1000};
    return o;
  }
  void start(uint32_t id) { context->spans[id].start_ns = 1; }
  void end(uint32_t id) {
    start(id);
    context->spans[id].end_ns = 2;
  }
  const plan::instruction& first_gather() {
    return find_instruction(*p, [](const auto& x) { return x.kind == plan::kind::gather; });
  }
};

std::vector<uint32_t> nobody(const collective_id&) { return {}; }

}  // namespace

BOOST_FIXTURE_TEST_SUITE(stall, fixture)

BOOST_AUTO_TEST_CASE(a_collective_under_way_names_its_instruction_and_the_missing_partners) {
  const auto& gather = first_gather();
  start(gather.id);
  collective_id asked;
  const auto text = explain_stall(*context, [&](const collective_id& m) {
    asked = m;
    return std::vector<uint32_t>{1, 2};
  });
  BOOST_TEST((asked == collective_id{0, 1000 + gather.sequence}));
  BOOST_TEST(says(text, "fabric lane is in " + p->describe(gather.id) + " and waits for rank 1 and 2"), text);
}

BOOST_AUTO_TEST_CASE(a_rank_that_waits_for_another_does_not_name_itself) {
  const auto& gather = first_gather();
  start(gather.id);
  const auto told = [&](std::vector<uint32_t> who) {
    return explain_stall(*context, [who = std::move(who)](const collective_id&) { return who; });
  };
  const uint32_t self = p->rank, other = self + 1;
  const std::string begin = "fabric lane is in " + p->describe(gather.id) + " and waits for rank ";
  BOOST_TEST(says(told({self, other}), fmt::format("{}{}", begin, other)), told({self, other}));
  // If only this rank's own contribution is missing, the message names this rank.
  BOOST_TEST(says(told({self}), fmt::format("{}{}", begin, self)), told({self}));
}

BOOST_AUTO_TEST_CASE(an_instruction_that_cannot_start_names_the_one_it_waits_for) {
  const auto& forward = find_instruction(*p, [](const auto& x) { return x.kind == plan::kind::forward; });
  uint32_t last = 0;
  for (uint32_t on : forward.after) {
    if (on != forward.after.back()) end(on);
    last = on;
  }
  const auto text = explain_stall(*context, nobody);
  BOOST_TEST(says(text, "compute lane waits to start " + p->describe(forward.id) + " until " + p->describe(last) +
                            " has ended"),
             text);
}

BOOST_AUTO_TEST_CASE(an_instruction_that_does_not_end_is_named_without_partners) {
  const auto& forward = find_instruction(*p, [](const auto& x) { return x.kind == plan::kind::forward; });
  start(forward.id);
  const auto text = explain_stall(*context, nobody);
  BOOST_TEST(says(text, "compute lane is in " + p->describe(forward.id)), text);
  BOOST_TEST(!says(text, "compute lane is in " + p->describe(forward.id) + " and waits"), text);
}

BOOST_AUTO_TEST_CASE(lanes_that_have_ended_everything_are_not_mentioned) {
  for (uint32_t id : p->lanes[static_cast<size_t>(plan::lane::compute)]) end(id);
  const auto text = explain_stall(*context, nobody);
  BOOST_TEST(!says(text, "compute lane"), text);
  for (const auto& x : p->instructions) end(x.id);
  BOOST_TEST(explain_stall(*context, nobody).empty());
}

BOOST_AUTO_TEST_CASE(in_a_pipeline_stages_chunks_and_micro_batches_are_named) {
  const auto plans =
      plan::plans_of(plan::chain_table(std::vector<uint64_t>(6, 3000)), plan::options_of_pipeline("interleaved", 2, 2));
  p = plans[2];  // this plan belongs to the first rank with stages 1 and 3
  context = context_of(p);
  const auto is = [&](plan::kind kind, uint32_t stage) {
    return
        [this, kind, stage](const auto& x) { return x.kind == kind && p->layout->stage_of_unit[x.subject] == stage; };
  };
  const auto& receive = find_instruction(*p, is(plan::kind::receive, 1));
  const auto& forward = find_instruction(*p, is(plan::kind::forward, 3));
  for (const auto& x : p->instructions)
    if (x.id < forward.id) end(x.id);
  context->spans[receive.id].end_ns = 0;
  start(forward.id);
  const auto text = explain_stall(*context, [](const collective_id&) { return std::vector<uint32_t>{0}; });
  BOOST_TEST(says(text, "fabric lane (stage 1, chunk 0) is in receive input of "), text);
  BOOST_TEST(says(text, ", micro 0 and waits for rank 0 (stage 0)"), text);
  BOOST_TEST(says(text, "compute lane (stage 3, chunk 1) is in forward "), text);
  // If a collective of all ranks waits, the message names each missing rank with all its stages.
  const auto& vote = find_instruction(*p, [](const auto& x) { return x.kind == plan::kind::vote; });
  for (const auto& x : p->instructions)
    if (x.id != vote.id) end(x.id);
  start(vote.id);
  const auto all = explain_stall(*context, [](const collective_id&) { return std::vector<uint32_t>{0, 3}; });
  BOOST_TEST(says(all, "and waits for rank 0 (stages 0 and 2) and 3 (stages 1 and 3)"), all);
}

BOOST_AUTO_TEST_SUITE_END()
