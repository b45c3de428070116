// Tests the instructions that compute whole-parameter values (norms, matrices) for optimizers that need them, and that
// frozen parameters have none.
#include <algorithm>

#include "plan/check/check.hpp"
#include "plan/vote_layout.hpp"
#include "tests/check_ok.hpp"
#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(optimizer)

using namespace troupe::plan;
using troupe::tests::check_failed;

namespace {

constexpr update_need elements = update_need::elements, norms = update_need::parameter_norms,
                      matrix = update_need::whole_matrix;

uint32_t first(const rank_plan& p, kind k) {
  const auto it =
      std::find_if(p.instructions.begin(), p.instructions.end(), [k](const instruction& x) { return x.kind == k; });
  return it == p.instructions.end() ? none : it->id;
}

// Each parameter has more than one block, so that every rank owns a part of it.
const std::vector<uint64_t> sizes = {8192, 4096, 8192, 4096, 8192, 4096};

shared_plans plans_with(const std::vector<parameter_update>& optimizer, uint32_t ranks, uint32_t stage) {
  auto o = small_options(ranks, stage);
  o.updates.rules = optimizer;
  auto out = plans_of(chain_table(sizes), o);
  const auto proved = check(out);
  BOOST_TEST(proved.has_value(), (proved ? "" : proved.error().text));
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(moments_are_those_that_each_parameter_keeps) {
  const std::vector<parameter_update> optimizer = {{0, elements}, {1, elements}, {2, elements},
                                                   {0, elements}, {1, elements}, {2, elements}};
  for (uint32_t stage = 0; stage <= 3; ++stage) {
    BOOST_TEST_INFO_SCOPE("stage " << stage);
    uint64_t bytes = 0;
    const auto all = plans_with(optimizer, 2, stage);
    for (const auto& p : all) bytes += p->memory.moments;
    const uint64_t kept = 4096 + 2 * 8192 + 8192 + 2 * 4096;
    BOOST_TEST(bytes == (stage == 0 ? 2 : 1) * kept * sizeof(float));
  }
}

BOOST_AUTO_TEST_CASE(an_update_touches_the_weights_moments_gradients_and_copies_of_its_elements) {
  using troupe::core::dtype;
  const auto touched = [](const parameter_update& rule, const element_types& types, kind k) {
    auto o = small_options(2, 3);
    o.types = types;
    o.updates.rules.assign(sizes.size(), rule);
    o.updates.speculate = o.updates.may_clip = true;
    const auto p = plans_of(chain_table(sizes), o)[0];
    uint64_t bytes = 0, elements = 0;
    for (const auto& x : p->instructions) bytes += x.kind == k && x.guard != guard::always ? x.moved_bytes : 0;
    for (const auto& g : p->sub_groups) elements += g.elements;
    return bytes / elements;
  };
  const element_types fp32, fp64{dtype::f64, dtype::f64, dtype::f64}, bf16{dtype::bf16, dtype::f32, dtype::f32};
  for (const uint32_t m : {0U, 1U, 2U}) {
    BOOST_TEST(touched({m, elements}, fp32, kind::redo) == 2 * 4 * (1 + m) + 4);
    BOOST_TEST(touched({m, elements}, fp64, kind::redo) == 2 * 8 * (1 + m) + 8);
    BOOST_TEST(touched({m, elements}, bf16, kind::redo) == 2 * 4 * (1 + m) + 4 + 2);
  }
  BOOST_TEST(touched({2, norms}, fp32, kind::prepare) == 4 * (1 + 4) + 4U);
  BOOST_TEST(touched({2, norms}, bf16, kind::update) == 4 * (2 + 2) + 2U);
  BOOST_TEST(touched({1, matrix}, fp64, kind::prepare) == 8 * (1 + 2) + 8U);
  BOOST_TEST(touched({1, matrix}, fp64, kind::update) == 8U * (2 + 1));
}

BOOST_AUTO_TEST_CASE(norms_are_gathered_once_if_parameters_are_cut) {
  for (uint32_t stage = 0; stage <= 3; ++stage) {
    BOOST_TEST_INFO_SCOPE("stage " << stage);
    const auto p = plans_with(std::vector<parameter_update>(sizes.size(), {2, norms}), 2, stage)[0];
    BOOST_TEST(count(*p, kind::measure) == (stage == 0 ? 0U : 1U));
    BOOST_TEST(count(*p, kind::prepare) == p->sub_groups.size());
    BOOST_TEST(p->sub_groups.size() > 1U);
    BOOST_TEST(measured_elements(*p->layout) == 2 * p->layout->num_blocks);
  }
}

BOOST_AUTO_TEST_CASE(matrices_are_whole_in_two_slots_while_elements_are_updated) {
  std::vector<parameter_update> optimizer(sizes.size(), {1, matrix});
  optimizer[1] = {2, elements};
  for (uint32_t stage = 0; stage <= 3; ++stage) {
    BOOST_TEST_INFO_SCOPE("stage " << stage);
    const auto p = plans_with(optimizer, 2, stage)[0];
    const size_t sets = p->layout->matrix_sets.size();
    BOOST_TEST(sets >= 4U);
    BOOST_TEST(count(*p, kind::collect) == (stage == 0 ? 0 : sets));
    BOOST_TEST(count(*p, kind::orthogonalise) == sets);
    BOOST_TEST(count(*p, kind::spread) == sets);
    BOOST_TEST(p->memory.directions <= 2 * 8192 * sizeof(float));
    BOOST_TEST(first(*p, kind::update) < first(*p, kind::orthogonalise));
    if (stage > 0) BOOST_TEST(first(*p, kind::collect) < first(*p, kind::update));
  }
}

BOOST_AUTO_TEST_CASE(matrices_are_shared_out_evenly_to_the_ranks) {
  const auto p = plans_with(std::vector<parameter_update>(sizes.size(), {1, matrix}), 3, 3)[0];
  std::vector<uint64_t> load(3, 0);
  for (uint32_t q = 0; q < sizes.size(); ++q) load[p->layout->matrix_owner[q]] += sizes[q];
  BOOST_TEST(*std::max_element(load.begin(), load.end()) <= 16384U);
}

BOOST_AUTO_TEST_CASE(frozen_parameters_are_gathered_but_have_no_gradient_and_no_states) {
  for (uint32_t stage = 0; stage <= 3; ++stage) {
    BOOST_TEST_INFO_SCOPE("stage " << stage);
    table_writer w;
    for (uint64_t n : sizes) w.unit({{w.parameter(n)}});
    w.freeze({0, 2});
    const auto all = plans_of(w.done(), small_options(2, stage));
    const auto proved = check(all);
    BOOST_TEST(proved.has_value(), (proved ? "" : proved.error().text));
    uint64_t moments = 0, updated = 0;
    for (const auto& p : all) {
      moments += p->memory.moments;
      for (const auto& g : p->sub_groups) updated += g.elements;
      for (uint32_t q : {0U, 2U}) BOOST_TEST_CONTEXT("q " << q) BOOST_TEST(p->layout->bucket_of[q] == none);
      for (const auto& set : p->layout->publish_sets)
        for (const auto& x : set.parameters) BOOST_TEST((x.parameter != 0 && x.parameter != 2));
      // The first unit needs no backward, for which stage 3 would gather it once more.
      const uint64_t usual = count(*plans_with({}, 2, stage)[0], kind::gather);
      BOOST_TEST(count(*p, kind::gather) == usual - (stage == 3 ? 1 : 0));
    }
    const uint64_t trained = 3 * 4096 + 8192;
    BOOST_TEST(updated == (stage == 0 ? 2 : 1) * trained);
    BOOST_TEST(moments == (stage == 0 ? 2 : 1) * 2 * trained * sizeof(float));
  }
}

BOOST_AUTO_TEST_CASE(nothing_to_train_is_refused) {
  table_writer w;
  w.unit({{w.parameter(2048)}});
  w.unit({{w.parameter(2048)}});
  w.freeze({0, 1});
  check_failed(make_layout(w.done(), small_options(2, 3)), "every parameter is frozen");
}

BOOST_AUTO_TEST_CASE(an_optimizer_for_another_model_is_refused) {
  auto o = small_options(2, 3);
  o.updates.rules.assign(2, {});
  check_failed(make_layout(chain_table(sizes), o), "given for 2 parameters, the model has 6");
}

BOOST_AUTO_TEST_SUITE_END()
