// Tests LZ4's blocks and frames, and delta encodings, made by hand: wrong ones are refused by name, and a length that
// is stated but not there costs no memory.
#include "data/formats/block_codec.hpp"

#include <boost/test/unit_test.hpp>

#include <string>

#include "data/formats/delta.hpp"

BOOST_AUTO_TEST_SUITE(block_codec)

using namespace troupe;
using namespace std::string_literals;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string expanded(data::block_codec codec, const std::string& packed, uint64_t bytes) {
  std::vector<std::byte> out;
  const auto ok = data::expand_block(codec, bytes_of(packed), bytes, out);
  return ok ? std::string(reinterpret_cast<const char*>(out.data()), out.size()) : "refused: " + ok.error().text;
}
std::string block(const std::string& packed, uint64_t bytes) {
  return expanded(data::block_codec::lz4_block, packed, bytes);
}
std::string frame(const std::string& packed, uint64_t bytes) {
  return expanded(data::block_codec::lz4_frame, packed, bytes);
}

const std::string magic = "\x04\x22\x4D\x18"s, end = "\0\0\0\0"s;
/// Headers of frames with independent blocks without checksums, and with linked ones, each with its header's checksum.
const std::string independent = magic + "\x60\x40\x82"s, linked = magic + "\x40\x40\xC0"s;

std::string delta_error(const std::string& packed, bool repeats) {
  data::delta_texts texts(bytes_of(packed), repeats);
  std::string out;
  while (const auto x = texts.next()) out += "[" + std::string(*x) + "]";
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_lz4_block_is_literals_and_copies) {
  BOOST_TEST(block("\x30"
                   "abc"s,
                   3) == "abc");
  BOOST_TEST(block("\x16"
                   "a\x01\x00\x10"
                   "b"s,
                   12) == "aaaaaaaaaaab");  // a copy of bytes that it has just written
  BOOST_TEST(block("\xF0\x02"s + std::string(17, 'x'), 17) == std::string(17, 'x'));
  BOOST_TEST(block("\0"s, 0).empty());
}

BOOST_AUTO_TEST_CASE(an_lz4_block_that_lies_is_named) {
  const std::string cut = "refused: broken LZ4 block: it ends in the middle";
  for (const std::string& text : {""s,
                                  "\x30"
                                  "ab"s,
                                  "\xF0"s, "\xF0\xFF"s,
                                  "\x10"
                                  "a"s +
                                      "\x01"s,
                                  "\x16"
                                  "a\x01\x00"s})
    BOOST_TEST(block(text, 100) == cut);
  BOOST_TEST(block("\x16"
                   "a\x02\x00"s,
                   100) == "refused: broken LZ4 block: a copy begins before the text");
  BOOST_TEST(block("\x16"
                   "a\x00\x00"s,
                   100) == "refused: broken LZ4 block: a copy begins before the text");
  BOOST_TEST(block("\x30"
                   "abc"s,
                   2) == "refused: broken LZ4 block: it holds more than it states");
  BOOST_TEST(block("\x16"
                   "a\x01\x00\x10"
                   "b"s,
                   8) == "refused: broken LZ4 block: it holds more than it states");
  BOOST_TEST(block("\x30"
                   "abc"s,
                   4) == "refused: broken LZ4 block: wanted 4 bytes, got 3");
  BOOST_TEST(block("\x30"
                   "abc"s,
                   data::max_block_bytes + 1)
                 .find("at most 536870912 are read") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(lz4_frames_hold_blocks_that_follow_each_other) {
  const std::string abcd =
                        "\x05\0\0\0\x40"
                        "abcd"s,
                    again = "\x04\0\0\0\x00\x04\x00\x00"s;
  const std::string stored = "\x02\0\0\x80yz"s;
  BOOST_TEST(frame(independent + abcd + stored + end, 6) == "abcdyz");
  BOOST_TEST(frame(linked + abcd + again + end, 8) == "abcdabcd");
  BOOST_TEST(frame(independent + abcd + again + end, 8) == "refused: broken LZ4 block: a copy begins before the text");
  BOOST_TEST(frame(independent + abcd + end + independent + stored + end, 6) == "abcdyz");
  BOOST_TEST(frame("\x50\x2A\x4D\x18\x03\0\0\0..."s + independent + stored + end, 2) == "yz");  // skippable frame
}

BOOST_AUTO_TEST_CASE(lz4_frames_that_lie_are_named) {
  const std::string stored = "\x02\0\0\x80yz"s;
  const auto refused = [&](const std::string& text, const std::string& words) {
    const auto got = frame(text, 2);
    BOOST_TEST(got.find(words) != std::string::npos, got);
  };
  refused("some text", "it does not begin like a frame");
  refused(independent, "it ends in the middle");
  refused(independent + stored, "it ends in the middle");
  refused(independent + "\xFF\xFF\xFF\x7F"s, "it ends in the middle");
  refused(independent + stored + stored + end, "it holds more than it states");
  refused(magic + "\x60\x40\x83"s + stored + end, "its header does not match its checksum");
  refused(magic + "\xA0\x40\x00"s, "an unknown version of frames");
  refused(magic + "\x61\x40\x00\0\0\0\0"s, "a dictionary, which is not supported");
}

BOOST_AUTO_TEST_CASE(delta_encoded_texts_are_read_to_the_last_and_no_further) {
  // The 3 lengths are 2, then differences of -1 and 2, with -1 the least: widths 2, 0, 0, 0.
  const std::string lengths = "\x80\x01\x04\x03\x04\x01\x02\0\0\0\x0C\0\0\0\0\0\0\0"s;
  BOOST_TEST(delta_error(lengths + "abcdef", false) == "[ab][c][def]");
  BOOST_TEST(delta_error(lengths + "abcde", false) == "[ab][c]");
  BOOST_TEST(delta_error(lengths.substr(0, lengths.size() - 1) + "", false).empty());
  // The texts repeat 0, 2 and 1 bytes of the text before.
  const std::string repeated = "\x80\x01\x04\x03\x00\x01\x02\0\0\0\x03\0\0\0\0\0\0\0"s;
  BOOST_TEST(delta_error(repeated + lengths + "abcdef", true) == "[ab][abc][adef]");
  BOOST_TEST(delta_error(lengths + lengths + "abcdef", true).empty());  // the first text can repeat nothing
  for (const std::string& broken :
       {"\x81\x01\x04\x01\x00"s, "\x80\x01\x00\x01\x00"s, "\x80\x01\x05\x01\x00"s, "\x80\x01\x08\x01\x00"s,
        "\x00\x04\x01\x00"s, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"s})
    BOOST_TEST(delta_error(broken + "ab", false).empty());
}

BOOST_AUTO_TEST_SUITE_END()
