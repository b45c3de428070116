#include "plan/choose/machine_costs.hpp"

#include <boost/test/unit_test.hpp>
#include <set>
#include <string>

BOOST_AUTO_TEST_SUITE(machine_costs)

using namespace troupe::plan;

namespace {

const auto tolerance = boost::test_tools::tolerance(1e-12);

}  // namespace

BOOST_AUTO_TEST_CASE(constants_fit_the_four_measured_products) {
  const measured_products measured{.large = {512, 768, 1024},
                                   .large_s = 9e-3,
                                   .small_m = 16,
                                   .small_n = 32,
                                   .small_k = 8,
                                   .small_m_s = 1e-3,
                                   .small_n_s = 0.5e-3,
                                   .small_k_s = 2e-3};
  troupe::plan::machine_costs costs;
  fit_products(measured, costs);
  BOOST_TEST(costs.product_fill_m > 0);
  BOOST_TEST(costs.product_fill_n > 0);
  BOOST_TEST(costs.product_fill_k > 0);
  BOOST_TEST(product_seconds(costs, measured.large) == 9e-3, tolerance);
  BOOST_TEST(product_seconds(costs, {16, 768, 1024}) == 1e-3, tolerance);
  BOOST_TEST(product_seconds(costs, {512, 32, 1024}) == 0.5e-3, tolerance);
  BOOST_TEST(product_seconds(costs, {512, 768, 8}) == 2e-3, tolerance);
}

BOOST_AUTO_TEST_CASE(a_fill_is_neither_negative_nor_larger_than_the_large_size) {
  const measured_products measured{.large = {256, 256, 256},
                                   .large_s = 1e-3,
                                   .small_m = 64,
                                   .small_n = 64,
                                   .small_k = 64,
                                   .small_m_s = 0.1e-3,
                                   .small_n_s = 5e-3,
                                   .small_k_s = 0.25e-3};
  troupe::plan::machine_costs costs;
  fit_products(measured, costs);
  BOOST_TEST(costs.product_fill_m == 0.0);
  BOOST_TEST(costs.product_fill_n == 256.0, tolerance);
  BOOST_TEST(costs.product_fill_k == 0.0);
  BOOST_TEST(product_seconds(costs, measured.large) == 1e-3, tolerance);
}

BOOST_AUTO_TEST_CASE(a_product_without_rows_takes_no_time_and_a_larger_one_takes_longer) {
  troupe::plan::machine_costs costs;
  costs.product_flops_per_s = 1e9;
  costs.product_fill_k = 10;
  BOOST_TEST(product_seconds(costs, {0, 10, 10}) == 0.0);
  BOOST_TEST(product_seconds(costs, {10, 10, 10}) == 4e-6, tolerance);
  BOOST_TEST(product_seconds(costs, {10, 10, 11}) > product_seconds(costs, {10, 10, 10}));
}

BOOST_AUTO_TEST_CASE(every_constant_has_a_name_of_its_own_a_unit_and_a_meaning) {
  std::set<std::string> names;
  for (const auto& c : machine_constants()) {
    names.emplace(c.name);
    BOOST_TEST(!c.unit.empty(), c.name);
    BOOST_TEST(!c.meaning.empty(), c.name);
  }
  BOOST_TEST(names.size() == machine_constants().size());
  // All fields are constants but product_lost, which cards have and no machine measures.
  BOOST_TEST(sizeof(troupe::plan::machine_costs) == (machine_constants().size() + 1) * sizeof(double));
}

BOOST_AUTO_TEST_SUITE_END()
