// Tests the example program that compresses, trains, cleans and saves its own modules.
#include <boost/test/unit_test.hpp>

#include "tests/apps/process.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(example)

BOOST_AUTO_TEST_CASE(a_hosts_own_modules_are_compressed_trained_cleaned_and_saved) {
  troupe::tests::process p({troupe::places::own_compression_binary}, "/");
  const auto end = p.end(std::chrono::seconds(60));
  BOOST_TEST(end.code == 0, end.out << end.err);
  for (const char* part : {"edges: channel_pruning, 4 of 8 kept", "first: weight_quantization, 4 bits",
                           "first: row_pruning, 16 of 64 kept", " bytes saved; evaluation loss "})
    BOOST_TEST_CONTEXT(part) BOOST_TEST(end.out.find(part) != std::string::npos, end.out);
}

BOOST_AUTO_TEST_SUITE_END()
