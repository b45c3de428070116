// Tests the shard lane's sum of tied gradients, on memory filled as reductions and exchanges leave it.
#include "actors/hands/shard_executor.hpp"

#include <boost/test/unit_test.hpp>

#include "plan/layout/ties.hpp"
#include "tests/actors/ranks.hpp"
#include "tests/plan/tied_samples.hpp"

BOOST_AUTO_TEST_SUITE(shard_executor)

using namespace troupe;
using namespace troupe::actors;

namespace {

/// Gradients of the uses of one tied parameter, in the order of units. In fp32 only this order of addition results in
/// `wanted`, because 1 is lost when it is added to 1e8.
constexpr float gradients[] = {1e8F, 1, -1e8F, 0.5F};
constexpr float wanted = 0.5F;

/// Returns the memory in which this rank has the gradient of one use of the tied parameter before the sum: among its
/// own gradients if it has the use's unit, otherwise in the window of received gradients.
std::span<float> gradient_of(const rank_memory& memory, const plan::rank_plan& p, uint32_t q, uint32_t slot) {
  const auto& l = *p.layout;
  const uint64_t count = p.own_states(l.ties[0].parameters[l.options.mesh.pipeline_at(p.rank)]).count;
  if (l.holds(p.rank, q)) return {reinterpret_cast<float*>(memory.last_gradient(p, q)), count};
  auto* received = reinterpret_cast<float*>(memory.window(p, slot));
  return {received + plan::received_place(l, q, l.options.mesh.pipeline_at(p.rank)), count};
}

void is_added(const std::shared_ptr<const plan::rank_plan>& p) {
  const auto allocated = rank_memory::allocate(p, plan::pools_of(*p));
  BOOST_TEST_REQUIRE(allocated.has_value());
  const auto& memory = **allocated;
  const auto& sum = plan::only(*p, plan::kind::tied_sum);
  const auto& uses = p->layout->ties[0].parameters;
  for (size_t k = 0; k < uses.size(); ++k)
    std::ranges::fill(gradient_of(memory, *p, uses[k], sum.slots.moved), gradients[k]);
  actors::shard_executor hands(*allocated, nullptr);
  hands.begin(context_of(p));
  const auto did = hands.start(sum);
  BOOST_TEST_REQUIRE(did.has_value());
  BOOST_TEST((*did == progress::done));
  for (const uint32_t q : uses) {
    BOOST_TEST_INFO_SCOPE("q " << q);
    if (!p->layout->holds(p->rank, q)) continue;
    const auto is = gradient_of(memory, *p, q, sum.slots.moved);
    BOOST_TEST(!is.empty());
    BOOST_TEST(std::ranges::all_of(is, [](float x) { return x == wanted; }), "parameter " << q);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(gradients_of_a_tied_parameter_are_added_in_the_order_of_units_wherever_they_lie) {
  const auto table = plan::four_uses();
  for (uint32_t stage = 0; stage <= 3; ++stage)
    for (const bool micro_first : {false, true}) BOOST_TEST_CONTEXT("stage " << stage << ", per step " << micro_first) {
        auto uncut = plan::per_use(plan::small_options(2, stage, 2));
        auto cut = plan::staged_per_use(*table, "interleaved", {2, 2, 4}, 2, stage);
        uncut.gradients.sum_micro_first = cut.gradients.sum_micro_first = micro_first;
        for (const auto& options : {uncut, cut})
          for (const auto& p : plan::plans_of(table, options)) is_added(p);
      }
}

BOOST_AUTO_TEST_SUITE_END()
