// Tests the text of the table of allocated bytes by owner.
#include "telemetry/figures/memory_table.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(memory_table)

using namespace troupe::telemetry;

BOOST_AUTO_TEST_CASE(a_line_per_rank_with_the_owners_that_have_bytes) {
  const std::vector<memory_row> rows = {{0, "host", {{"parameters", 1024}, {"moments", 0}, {"votes", 0}}},
                                        {1, "host", {{"parameters", 2048}, {"moments", 0}, {"votes", 100}}}};
  BOOST_TEST(memory_breakdown("at the end", rows, 5 << 20) ==
             "memory at the end\n"
             "  rank  tier  parameters      votes      total\n"
             "     0  host    1.00 KiB        0 B   1.00 KiB\n"
             "     1  host    2.00 KiB      100 B   2.10 KiB\n"
             "  the whole process: 5.00 MiB\n");
  BOOST_TEST(memory_breakdown("x", {}, 0) == "memory x\n  rank  tier      total\n");
}

BOOST_AUTO_TEST_CASE(the_process_has_bytes_and_its_peak_is_no_less) {
  BOOST_TEST(process_resident_bytes() > 1'000'000U);
  // The kernel updates the peak and the current value at different times.
  BOOST_TEST(process_peak_bytes() + (1 << 20) >= process_resident_bytes());
}

BOOST_AUTO_TEST_SUITE_END()
