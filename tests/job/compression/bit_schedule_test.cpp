// Compares numbers of bits that decrease one by one, and the values of weights meanwhile, with those of DeepSpeed
// 0.19.6's Quantizer, which the fixture of tests/peer/make_compression_fixtures.py contains.
#include "job/compression/bit_schedule.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/compress/compressed_weight.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(bit_schedule)

using namespace troupe;

BOOST_AUTO_TEST_CASE(each_bit_stays_twice_as_long_as_the_one_before) {
  const job::bit_schedule s{.start_bits = 8, .target_bits = 4, .period = 10};
  const auto bits = [&](uint64_t step) { return job::bits_in_step(s, step).bits; };
  for (const auto& [step, wanted] : std::vector<std::pair<uint64_t, uint32_t>>{
           {1, 8}, {9, 8}, {10, 7}, {19, 7}, {20, 6}, {39, 6}, {40, 5}, {79, 5}, {80, 4}, {1000000, 4}})
    BOOST_TEST(bits(step) == wanted, "step " << step);
  const job::bit_schedule at_once{.start_bits = 8, .target_bits = 5, .period = 0};
  for (uint64_t step = 1; step < 6; ++step)
    BOOST_TEST(job::bits_in_step(at_once, step).bits == std::max<uint64_t>(5, 8 - step));
  const job::bit_schedule never{.start_bits = 16, .target_bits = 1, .period = ~uint64_t{0}};
  BOOST_TEST(job::bits_in_step(never, ~uint64_t{0} - 1).bits == 16U);
}

BOOST_AUTO_TEST_CASE(the_share_of_the_weight_falls_to_nothing_and_is_whole_again_where_a_bit_goes) {
  const job::bit_schedule s{.start_bits = 8, .target_bits = 7, .period = 4, .change_ratio = 0.5};
  const std::vector<float> wanted{0.5F, 0, 0, 1, 0.5F, 0, 0, 0};
  for (size_t i = 0; i < wanted.size(); ++i)
    BOOST_TEST(job::bits_in_step(s, i + 1).kept == wanted[i], "step " << i + 1);
}

BOOST_AUTO_TEST_CASE(every_step_has_the_peers_values) {
  std::ifstream file((std::string(troupe::places::source_dir) + "/tests/kernels/fixtures/moving_bits.json"));
  BOOST_TEST_REQUIRE(bool(file));
  const auto all = nlohmann::json::parse(file);
  const auto weight = all["weight"].get<std::vector<float>>();
  BOOST_TEST_REQUIRE(all["runs"].size() >= 4U);
  for (const auto& run : all["runs"]) {
    const job::bit_schedule s{run["start_bits"], run["target_bits"], run["period"], run["change_ratio"]};
    const bool symmetric = run["type"] == "symmetric";
    const kernels::weight_recipe recipe{kernels::weight_quantiser(run["target_bits"], symmetric).value(), run["groups"],
                                        all["rows"], all["columns"]};
    uint64_t step = 0;
    for (const auto& values : run["steps"])
      BOOST_TEST_CONTEXT(run["type"] << " to " << s.target_bits << ", step " << step + 1) {
        const auto now = job::bits_in_step(s, ++step);
        BOOST_TEST(now.bits == values["bits"].get<uint32_t>());
        std::vector<float> got(weight.size());
        kernels::compress_weight(recipe, core::dtype::f32, reinterpret_cast<const std::byte*>(weight.data()),
                                 reinterpret_cast<std::byte*>(got.data()), {},
                                 {.grid = kernels::weight_quantiser(now.bits, symmetric).value(), .kept = now.kept});
        const auto wanted = values["values"].get<std::vector<float>>();
        for (size_t i = 0; i < got.size(); ++i) BOOST_TEST(std::fabs(got[i] - wanted[i]) <= 1e-6F * 4);
      }
  }
}

BOOST_AUTO_TEST_SUITE_END()
