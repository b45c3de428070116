// Compares the bytes of event files with published checksums and with an independent reader. The test with
// TensorBoard's reader is in tests/peer/curves.py.
#include "telemetry/curves/event_record.hpp"

#include <bit>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <vector>

BOOST_AUTO_TEST_SUITE(event_record)

using namespace troupe::telemetry;

namespace {

template <class T>
T number_at(std::string_view s, size_t at) {
  T x{};
  std::memcpy(&x, s.data() + at, sizeof x);
  return x;
}

struct field {
  uint64_t number = 0, whole = 0;  ///< value of a varint, and the bits of a number of fixed size
  std::string_view bytes;
};

uint64_t varint(std::string_view& s) {
  uint64_t x = 0;
  for (int shift = 0;; shift += 7) {
    const auto c = static_cast<unsigned char>(s.at(0));
    s.remove_prefix(1);
    x |= uint64_t{c & 0x7FU} << shift;
    if (c < 0x80) return x;
  }
}

std::vector<field> fields_of(std::string_view s) {
  std::vector<field> out;
  while (!s.empty()) {
    const uint64_t key = varint(s);
    field f{key >> 3, 0, {}};
    size_t n = 0;
    switch (key & 7) {
      case 0:
        f.whole = varint(s);
        break;
      case 1:
        f.whole = number_at<uint64_t>(s, 0);
        n = 8;
        break;
      case 2:
        n = varint(s);
        f.bytes = s.substr(0, n);
        break;
      case 5:
        f.whole = number_at<uint32_t>(s, 0);
        n = 4;
        break;
      default:
        BOOST_FAIL("wire type " << (key & 7));
    }
    BOOST_TEST_REQUIRE(n <= s.size());
    s.remove_prefix(n);
    out.push_back(f);
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_record_is_length_checksum_payload_checksum) {
  const std::string payload("\0payload\xFF", 9);
  const std::string r = tf_record(payload);
  BOOST_TEST_REQUIRE(r.size() == payload.size() + 16);
  BOOST_TEST(number_at<uint64_t>(r, 0) == payload.size());
  BOOST_TEST(number_at<uint32_t>(r, 8) == masked_crc32c(r.substr(0, 8)));
  BOOST_TEST(r.substr(12, payload.size()) == payload);
  BOOST_TEST(number_at<uint32_t>(r, 12 + payload.size()) == masked_crc32c(payload));
}

BOOST_AUTO_TEST_CASE(an_event_has_its_time_its_step_and_every_value) {
  const std::vector<curve_value> values = {{"Train/Samples/lr", 1e-3}, {"Train/Samples/train_loss", 5.5}};
  const std::string event = summary_event(1700000000.25, 300, values);
  const auto top = fields_of(event);
  BOOST_TEST_REQUIRE(top.size() == 3U);
  BOOST_TEST(top[0].number == 1U);
  BOOST_TEST(std::bit_cast<double>(top[0].whole) == 1700000000.25);
  BOOST_TEST(top[1].number == 2U);
  BOOST_TEST(top[1].whole == 300U);
  BOOST_TEST(top[2].number == 5U);
  const auto summary = fields_of(top[2].bytes);
  BOOST_TEST_REQUIRE(summary.size() == 2U);
  for (size_t i = 0; i < 2; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    BOOST_TEST(summary[i].number == 1U);
    const auto value = fields_of(summary[i].bytes);
    BOOST_TEST_REQUIRE(value.size() == 2U);
    BOOST_TEST(value[0].number == 1U);
    BOOST_TEST(value[0].bytes == values[i].label);
    BOOST_TEST(value[1].number == 2U);
    BOOST_TEST(std::bit_cast<float>(static_cast<uint32_t>(value[1].whole)) == static_cast<float>(values[i].value));
  }
}

BOOST_AUTO_TEST_CASE(a_file_begins_with_its_version_and_has_the_name_that_readers_look_for) {
  const std::string version = version_event(1.5);
  const auto top = fields_of(version);
  BOOST_TEST_REQUIRE(top.size() == 2U);
  BOOST_TEST(top[1].number == 3U);
  BOOST_TEST(top[1].bytes == "brain.Event:2");
  BOOST_TEST(event_file_name(1700000000.9, "a host/x", 42) == "events.out.tfevents.1700000000.a_host_x.42.0");
}

BOOST_AUTO_TEST_SUITE_END()
