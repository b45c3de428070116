// Tests the units of a distillation teacher in a plan: they run only forward, only in training steps and before the
// model's units, and their parameters are not saved.
#include "plan/check/check.hpp"

#include <functional>
#include <string>

#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(teacher)

using namespace troupe::plan;

namespace {

/// Returns a model of one block, preceded by two units of a teacher.
shared_table taught() {
  auto table = *gpt_table(2, 32, 64, /*tied=*/false);
  table.teacher_units = 2;
  for (uint32_t u = 0; u < 2; ++u)
    for (const uint32_t q : table.units[u].parameters)
      table.parameters[q].trainable = !(table.parameters[q].of_teacher = true);
  return std::make_shared<const troupe::core::model_table>(std::move(table));
}

plan_options options_at(uint32_t stage, mode what) {
  auto o = small_options(2, stage, what == mode::train ? 2 : 1);
  o.mode = what;
  o.recompute = stage > 1;
  o.saving.on = what == mode::train;
  return o;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_teacher_computes_forward_in_steps_that_train_alone_and_is_never_saved) {
  for (uint32_t stage = 0; stage < 4; ++stage)
    for (const mode what : {mode::train, mode::evaluate, mode::generate}) {
      BOOST_TEST_INFO_SCOPE("stage " << stage);
      const auto plans = plans_of(taught(), options_at(stage, what));
      const auto proved = check(plans);
      BOOST_TEST_REQUIRE(proved.has_value(), proved.error().text);
      for (const auto& p : plans) {
        uint64_t forwards = 0;
        for (const auto& x : p->instructions) {
          if (x.subject >= 2 || lane_of(x.kind) != lane::compute || x.kind == kind::release) continue;
          BOOST_TEST((x.kind == kind::forward), p->describe(x.id));
          ++forwards;
        }
        BOOST_TEST(forwards == (what == mode::train ? 3U * 2 : 0U));  // three segments times two micro-batches
        for (const auto& block : p->snapshots)
          for (const auto& piece : block.pieces) BOOST_TEST(!p->table().parameters[piece.parameter].of_teacher);
      }
    }
}

BOOST_AUTO_TEST_CASE(a_model_that_goes_back_through_its_teacher_or_does_not_ask_it_is_refused) {
  const auto refused = [&](const std::function<void(rank_plan&)>& change, const std::string& what, uint32_t stage = 1) {
    shared_plans all;
    for (const auto& p : plans_of(taught(), options_at(stage, mode::train))) {
      auto changed = *p;
      change(changed);
      all.push_back(std::make_shared<const rank_plan>(std::move(changed)));
    }
    const auto proved = check(all);
    BOOST_TEST_REQUIRE(!proved.has_value());
    BOOST_TEST(proved.error().text.find(what) != std::string::npos, proved.error().text);
  };
  const auto first = [](rank_plan& p, kind k, uint32_t subject) -> instruction& {
    for (auto& x : p.instructions)
      if (x.kind == k && x.subject == subject) return x;
    throw std::logic_error("no such instruction");
  };
  refused(
      [&](rank_plan& p) {
        instruction& x = first(p, kind::release, 3);
        x.kind = kind::backward;
        x.use = use::backward;
        x.subject = 1;
        x.segment = 0;
      },
      "goes back through a teacher", 3);
  refused([&](rank_plan& p) { first(p, kind::backward, 2).subject = 1; }, "nothing does the backward of unit 2");
  refused([&](rank_plan& p) { first(p, kind::forward, 1).kind = kind::backward; }, "backward");
  refused([&](rank_plan& p) { first(p, kind::forward, 2).subject = 1; }, "forward unit 1");
}

BOOST_AUTO_TEST_SUITE_END()
