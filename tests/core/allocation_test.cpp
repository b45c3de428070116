// Tests that exhausted memory becomes an error value, and that other results and errors are left alone.
#include "core/allocation.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <vector>

#include "tests/check_ok.hpp"

BOOST_AUTO_TEST_SUITE(allocation)

using namespace troupe::core;
using namespace troupe::tests;

BOOST_AUTO_TEST_CASE(exhausted_memory_is_an_error_that_names_its_place) {
  const auto none = with_memory("'a.pt'", []() -> result<int> { throw std::bad_alloc(); });
  check_error(none, "'a.pt': not enough memory");
  BOOST_TEST((none.error().kind == error_kind::limit));
  const volatile size_t too_many = PTRDIFF_MAX;  // more than a vector of floats may have
  const auto beyond = with_memory("w", [&]() -> result<std::vector<float>> { return std::vector<float>(too_many); });
  check_error(beyond, "w: not enough memory");
}

BOOST_AUTO_TEST_CASE(results_and_errors_pass) {
  BOOST_TEST(with_memory("w", []() -> result<int> { return 3; }).value() == 3);
  const auto failed = with_memory("w", []() -> result<int> { return fail(error_kind::io, "no disk"); });
  check_error(failed, "no disk");
  BOOST_TEST((failed.error().kind == error_kind::io));
}

BOOST_AUTO_TEST_SUITE_END()
