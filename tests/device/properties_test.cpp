// Tests device/properties.hpp on every backend.
#include "device/properties.hpp"

#include "tests/device/devices.hpp"

namespace troupe::device::tests {

BOOST_AUTO_TEST_SUITE(properties)

BOOST_AUTO_TEST_CASE(a_device_has_the_facts_that_layouts_need) {
  on_every_device([](device_id d) {
    const auto& facts = properties_of(d);
    BOOST_TEST(!facts.name.empty());
    BOOST_TEST(facts.alignment_bytes >= 64U);
    BOOST_TEST((facts.alignment_bytes & (facts.alignment_bytes - 1)) == 0U);
    BOOST_TEST(facts.total_bytes > uint64_t{64} << 20);
    BOOST_TEST(&facts == &properties_of(d));
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::device::tests
