// Allows test files to be compiled together. Appends a suffix to the namespace of each suite, so that suite `session`
// of one file does not hide class `session` from another file. The suite's name in reports stays the one in the file.
#pragma once

#include <boost/test/unit_test.hpp>

#undef BOOST_AUTO_TEST_SUITE
#define BOOST_AUTO_TEST_SUITE(suite) \
  namespace suite##_suite {          \
  BOOST_AUTO_TU_REGISTRAR(suite)(#suite, __FILE__, __LINE__, boost::unit_test::decorator::collector_t::instance());
