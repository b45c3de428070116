// Tests the table of a model together with its distillation teacher.
#include "models/table/teacher.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include "tests/models/model_fixture.hpp"

namespace troupe::models {

BOOST_AUTO_TEST_SUITE(teacher)

namespace {

model_spec spec_of(int layers, int width) {
  auto spec = take(parse_model_spec(fmt::format(
      R"({{"model_type": "gpt2", "n_layer": {}, "n_embd": {}, "n_head": 4, "n_positions": 16, "vocab_size": 30}})",
      layers, width)));
  spec.head_tile_rows = 2048;
  return spec;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_teacher_stands_in_front_frozen_and_its_head_beside_the_models_own) {
  const auto model = make_model_table(spec_of(1, 16), 2, 8, 4), alone = make_model_table(spec_of(2, 24), 2, 8, 4);
  const auto both = with_teacher(model, {spec_of(2, 24), {}, {}, 0, 0, {}, {}}, 2, 8, 4);
  BOOST_TEST(both.teacher_units == 3U);
  BOOST_TEST(both.units.size() == model.units.size() + 3);
  BOOST_TEST(both.numel() == model.numel());
  BOOST_TEST_REQUIRE(both.parameters.size() == model.parameters.size() + alone.parameters.size());
  for (size_t q = 0; q < both.parameters.size(); ++q) {
    BOOST_TEST_INFO_SCOPE("q " << q);
    const bool own = q < model.parameters.size();
    const auto& p = both.parameters[q];
    BOOST_TEST(p.of_teacher != own);
    BOOST_TEST(p.trainable == own);
    BOOST_TEST(p.name ==
               (own ? model.parameters[q].name : "teacher." + alone.parameters[q - model.parameters.size()].name));
  }
  BOOST_TEST(both.units[0].name == "teacher embedding");
  BOOST_TEST(both.units[3].name == "embedding");
  // The parameters of each segment's layers must be the parameters that the segment's entry lists.
  size_t seen = 0;
  for (uint32_t u = 0; u < both.units.size(); ++u)
    for (uint32_t s = 0; s < both.units[u].segments.size(); ++s) {
      BOOST_TEST_INFO_SCOPE("s " << s);
      BOOST_TEST_INFO_SCOPE("u " << u);
      const auto layers = both.layers_of(u, s);
      BOOST_TEST(layers.data() == both.layers.data() + seen);
      seen += layers.size();
      std::vector<uint32_t> parameters;
      for (const auto& l : layers) parameters.insert(parameters.end(), l.parameters.begin(), l.parameters.end());
      BOOST_TEST(parameters == both.units[u].segments[s].parameters, boost::test_tools::per_element());
      for (const uint32_t q : parameters)
        if (u < 3) BOOST_TEST(both.parameters[q].of_teacher);
    }
  BOOST_TEST(seen == both.layers.size());
  const auto head = both.layers_of(static_cast<uint32_t>(both.units.size()) - 1, 0);
  BOOST_TEST_REQUIRE(head.size() == 4U);
  BOOST_TEST(head[1].name == "lm_head");
  BOOST_TEST(head[2].name == "teacher.transformer.ln_f");
  BOOST_TEST(head[3].name == "teacher.lm_head");
  BOOST_TEST(without_teacher(both).parameters.size() == model.parameters.size());
}

BOOST_AUTO_TEST_CASE(layers_are_compared_by_the_list_or_evenly) {
  const auto shown = [](const std::vector<unit_pair>& all) {
    std::string out;
    for (const auto& x : all) out += fmt::format("{}:{} ", x.unit, x.of_teacher);
    return out;
  };
  BOOST_TEST(shown(hidden_pairs(2, 12, {3, 11})) == "0:2 1:4 2:12 ");
  BOOST_TEST(shown(map_pairs(2, 12, {3, 11})) == "1:4 2:12 ");
  BOOST_TEST(shown(hidden_pairs(3, 12, {})) == "0:0 1:4 2:8 3:12 ");
  // Block i of k learns from the teacher's block 12 (i + 1) / k - 1, counted from 0.
  BOOST_TEST(shown(map_pairs(3, 12, {})) == "1:4 2:8 3:12 ");
  BOOST_TEST(shown(hidden_pairs(2, 5, {})) == "0:0 1:2 2:4 ");
}

BOOST_AUTO_TEST_CASE(a_block_that_learns_alone_is_beside_the_next_ones_or_those_that_the_list_names) {
  const auto shown = [](const std::vector<block_pair>& all) {
    std::string out;
    for (const auto& x : all) out += fmt::format("{}:{}-{} ", x.unit, x.first, x.last);
    return out;
  };
  BOOST_TEST(shown(block_pairs(3, 3, {})) == "1:1-1 2:2-2 3:3-3 ");
  BOOST_TEST(shown(block_pairs(2, 5, {})) == "1:1-2 2:3-4 ");
  BOOST_TEST(shown(block_pairs(2, 12, {0, 11})) == "1:1-1 2:12-12 ");
}

BOOST_AUTO_TEST_CASE(what_is_compared_is_computed_in_one_stage) {
  const auto beside = [](teaching by, uint32_t layers) {
    std::string out;
    for (const uint32_t u : units_beside(by, layers)) out += fmt::format("{} ", u);
    return out;
  };
  teaching by{spec_of(5, 16), {}, {}, 0, 0, {}, {}};
  BOOST_TEST(beside(by, 2) == "0 1 1 2 2 2 ");
  BOOST_TEST(beside(by, 5) == "0 1 2 3 4 5 ");
  by.hidden = hidden_pairs(2, 5, {});
  BOOST_TEST(beside(by, 2) == "0 1 1 2 2 2 ");
  by.hidden = hidden_pairs(2, 5, {2, 3});  // the pairs are 0:1, 1:3 and 2:4
  BOOST_TEST(beside(by, 2) == "0 0 1 1 2 2 ");
  by.hidden = {};
  by.maps = map_pairs(2, 5, {0, 4});
  BOOST_TEST(beside(by, 2) == "0 1 2 2 2 2 ");
  by.maps = map_pairs(2, 5, {4, 0});
  BOOST_TEST(beside(by, 2).empty());
  by.maps = {};
  by.blocks = block_pairs(2, 5, {});
  BOOST_TEST(beside(by, 2) == "0 1 1 2 2 2 ");
  const auto both = with_teacher(make_model_table(spec_of(2, 16), 2, 8, 4), by, 2, 8, 4);
  BOOST_TEST(both.beside == (std::vector<uint32_t>{6, 7, 7, 8, 8, 8}), boost::test_tools::per_element());
  BOOST_TEST(both.teacher_bytes == 2U * 8 * 16 * 4);
  for (const uint32_t end : {6U, 9U})
    for (const uint32_t q : both.units[end].parameters)
      BOOST_TEST_CONTEXT("q " << q) BOOST_TEST(!both.parameters[q].trainable);
  for (const uint32_t q : both.units[7].parameters)
    BOOST_TEST_CONTEXT("q " << q) BOOST_TEST(both.parameters[q].trainable);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::models
