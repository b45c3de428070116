// Tests that tied parameters become copies that later units read, and that the rest of the table is unchanged.
#include "core/tied_copies.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(tied_copies)

namespace core = troupe::core;
using numbers = std::vector<uint32_t>;
using uses = std::vector<numbers>;

namespace {

core::parameter_info parameter(const std::string& name, int64_t rows, bool trainable = true) {
  core::parameter_info p;
  p.name = name;
  p.shape = {rows, 4};
  p.trainable = trainable;
  return p;
}

core::unit_info unit(const std::string& name, const uses& segments) {
  core::unit_info u;
  u.name = name;
  for (const auto& s : segments) {
    u.segments.push_back({"segment", s});
    u.parameters.insert(u.parameters.end(), s.begin(), s.end());
  }
  return u;
}

core::layer_info layer(const std::string& name, uint32_t at, uint32_t weight) {
  core::layer_info l;
  l.name = name;
  l.parameters = {weight};
  l.weight = weight;
  l.unit = at;
  return l;
}

/// Returns a model of an embedding, a block that reads a tied factor in both segments, and a head; the factor is
/// frozen.
core::model_table shared_table() {
  core::model_table t;
  t.parameters = {parameter("wte", 10), parameter("factor", 2, false), parameter("block", 3), parameter("norm", 1)};
  t.units = {unit("embedding", {{0, 1}}), unit("block", {{2, 1}, {1}}), unit("head", {{3, 0, 1}})};
  t.layers = {layer("wte", 0, 0), layer("block", 1, 2), layer("lm_head", 2, 0)};
  return t;
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_later_unit_that_reads_a_shared_parameter_gets_a_copy_behind_all_others) {
  const auto made = core::with_copies(shared_table());
  BOOST_TEST_REQUIRE(made.parameters.size() == 7U);
  const std::vector<std::pair<std::string, uint32_t>> wanted = {
      {"factor (block)", 1}, {"wte (head)", 0}, {"factor (head)", 1}};
  for (uint32_t k = 0; k < wanted.size(); ++k) {
    BOOST_TEST_INFO_SCOPE("k " << k);
    const auto& copy = made.parameters[4 + k];
    const auto& original = made.parameters[wanted[k].second];
    BOOST_TEST(copy.name == wanted[k].first);
    BOOST_TEST(copy.copy_of.value() == wanted[k].second);
    BOOST_TEST(copy.shape == original.shape);
    BOOST_TEST(copy.trainable == original.trainable);
    BOOST_TEST(made.original(4 + k) == wanted[k].second);
  }
  BOOST_TEST((core::uses_of_tied(made) == uses{{0, 5}, {1, 4, 6}}));
}

BOOST_AUTO_TEST_CASE(units_segments_and_layers_name_the_copy_and_the_first_unit_the_original) {
  const auto made = core::with_copies(shared_table());
  BOOST_TEST((made.units[0].parameters == numbers{0, 1}));
  BOOST_TEST((made.units[1].parameters == numbers{2, 4, 4}));
  BOOST_TEST((made.units[1].segments[1].parameters == numbers{4}));
  BOOST_TEST((made.units[2].segments[0].parameters == numbers{3, 5, 6}));
  BOOST_TEST(made.layers[0].weight.value() == 0U);
  BOOST_TEST(made.layers[1].weight.value() == 2U);
  BOOST_TEST(made.layers[2].weight.value() == 5U);
  BOOST_TEST((made.layers[2].parameters == numbers{5}));
}

BOOST_AUTO_TEST_CASE(copies_are_not_counted_among_the_models_elements) {
  BOOST_TEST(core::with_copies(shared_table()).numel() == shared_table().numel());
}

BOOST_AUTO_TEST_CASE(a_table_with_copies_or_without_shared_parameters_stays_as_it_is) {
  BOOST_TEST(core::has_shared(shared_table()));
  const auto once = core::with_copies(shared_table());
  BOOST_TEST(core::has_copies(once));
  BOOST_TEST(!core::has_shared(once));
  BOOST_TEST(core::with_copies(once).parameters.size() == once.parameters.size());
  auto plain = shared_table();
  plain.units.pop_back();
  plain.units.pop_back();
  BOOST_TEST(!core::has_copies(core::with_copies(plain)));
  BOOST_TEST(core::uses_of_tied(plain).empty());
}

BOOST_AUTO_TEST_SUITE_END()
