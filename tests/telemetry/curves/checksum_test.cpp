// Compares checksums with published ones, and decodes fields of protocol buffers that are whole, cut off and wrong.
#include "telemetry/curves/checksum.hpp"

#include <boost/test/unit_test.hpp>
#include <string>

#include "telemetry/curves/protobuf.hpp"

BOOST_AUTO_TEST_SUITE(checksum)

using namespace troupe::telemetry;

BOOST_AUTO_TEST_CASE(checksums_are_those_of_rfc_3720_and_of_zlib) {
  BOOST_TEST(crc32c("123456789") == 0xE3069283U);
  BOOST_TEST(crc32c(std::string(32, '\0')) == 0x8A9136AAU);
  BOOST_TEST(crc32c(std::string(32, '\xFF')) == 0x62A8AB43U);
  BOOST_TEST(crc32c("") == 0U);
  BOOST_TEST(crc32("123456789") == 0xCBF43926U);
  BOOST_TEST(crc32("56789", crc32("1234")) == 0xCBF43926U);
  BOOST_TEST(crc32("") == 0U);
}

BOOST_AUTO_TEST_CASE(fields_are_read_back_and_what_is_cut_off_is_no_field) {
  std::string message;
  put_integer(message, 1, 300);
  put_bytes(message, 200, "text");
  put_key(message, 3, wire_type::eight_bytes);
  put_little_endian(message, uint64_t{0x3030303030303030});
  put_key(message, 4, wire_type::four_bytes);
  put_little_endian(message, uint32_t{0x31313131});
  const auto read = [](std::string_view in) {
    size_t n = 0;
    while (take_field(in)) ++n;
    return n;
  };
  std::string_view in = message;
  const auto first = take_field(in), second = take_field(in), third = take_field(in), fourth = take_field(in);
  BOOST_TEST_REQUIRE((first && second && third && fourth));
  BOOST_TEST(first->number == 1U);
  BOOST_TEST(first->integer == 300U);
  BOOST_TEST(second->number == 200U);
  BOOST_TEST(second->bytes == "text");
  BOOST_TEST(third->bytes == "00000000");
  BOOST_TEST(fourth->bytes == "1111");
  BOOST_TEST(!take_field(in));
  for (size_t n = 0; n < message.size(); ++n) BOOST_TEST(read(message.substr(0, n)) < 4U, n);
  BOOST_TEST(read("\x0B") == 0U);                      // the start of a group, which these files do not have
  BOOST_TEST(read(std::string(11, '\xFF')) == 0U);     // a number of more than 64 bits
  BOOST_TEST(read("\x0A\xFF\xFF\xFF\xFF\x0F") == 0U);  // longer than the message
}

BOOST_AUTO_TEST_SUITE_END()
