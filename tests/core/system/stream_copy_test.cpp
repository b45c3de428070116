#include "core/system/stream_copy.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <vector>

BOOST_AUTO_TEST_SUITE(stream_copy)

using namespace troupe;

BOOST_AUTO_TEST_CASE(any_length_from_and_to_any_address_arrives_and_nothing_beyond) {
  std::vector<std::byte> from(1000), to(1000);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 31 + 1);
  for (const size_t length : {0U, 1U, 15U, 63U, 64U, 65U, 200U, 640U})
    for (const size_t source : {0U, 1U, 4U, 16U})
      for (const size_t target : {0U, 1U, 4U, 16U, 48U}) {
        std::fill(to.begin(), to.end(), std::byte{0});
        core::stream_copy(to.data() + target, std::span(from).subspan(source, length));
        size_t wrong = 0;
        for (size_t i = 0; i < to.size(); ++i)
          wrong += to[i] != (i < target || i >= target + length ? std::byte{0} : from[source + i - target]);
        BOOST_TEST(wrong == 0U, length << " bytes from " << source << " to " << target);
      }
}

BOOST_AUTO_TEST_SUITE_END()
