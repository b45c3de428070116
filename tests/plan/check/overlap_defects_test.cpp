// Checks that the checker refuses each known defect of overlap, and names the instruction and, if bytes are concerned,
// the bytes.
#include "tests/plan/overlap_defects.hpp"

#include "plan/check/check.hpp"

BOOST_AUTO_TEST_SUITE(overlap_defects)

using namespace troupe::plan;

BOOST_AUTO_TEST_CASE(the_checker_refuses_each_and_names_the_instruction_and_the_bytes) {
  for (const auto& d : troupe::plan::overlap_defects()) BOOST_TEST_CONTEXT(d.name) {
      const auto right = troupe::plan::check(healthy_plans(d));
      BOOST_TEST(right.has_value(), (right ? "" : right.error().text));
      const auto wrong = troupe::plan::check(broken_plans(d));
      BOOST_REQUIRE(!wrong.has_value());
      BOOST_TEST_MESSAGE(d.name << ": " << wrong.error().text);
      for (const auto& part : d.refusal)
        BOOST_TEST(wrong.error().text.find(part) != std::string::npos, part << " | " << wrong.error().text);
    }
}

BOOST_AUTO_TEST_SUITE_END()
