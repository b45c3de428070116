// Test files that are compiled together. Owns the name of a suite's namespace: it gets a suffix, so that the suite
// `session` of one file hides no class `session` from another. A suite is still called what its file says.
#pragma once

#include <boost/test/unit_test.hpp>

#undef BOOST_AUTO_TEST_SUITE
#define BOOST_AUTO_TEST_SUITE(suite) \
  namespace suite##_suite {          \
  BOOST_AUTO_TU_REGISTRAR(suite)(#suite, __FILE__, __LINE__, boost::unit_test::decorator::collector_t::instance());
