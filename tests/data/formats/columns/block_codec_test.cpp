// Tests blocks and frames that the codecs' own libraries packed, and delta encodings made by hand: invalid ones are
// refused by name, and a stated length without that many bytes costs no memory.
#include "data/formats/columns/block_codec.hpp"

#include <fmt/format.h>
#include <lz4.h>
#include <lz4frame.h>
#include <snappy.h>

#include <boost/test/unit_test.hpp>
#include <string>

#include "data/formats/columns/delta.hpp"

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

/// Returns a text of `count` words, some of which are repeated.
std::string words(size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += fmt::format("word {} of {}; ", i * i % 101, count);
  return out;
}

std::string lz4_packed(const std::string& text) {
  std::string out(static_cast<size_t>(LZ4_compressBound(static_cast<int>(text.size()))), '\0');
  const int bytes =
      LZ4_compress_default(text.data(), out.data(), static_cast<int>(text.size()), static_cast<int>(out.size()));
  out.resize(static_cast<size_t>(bytes));
  return out;
}

/// Returns an LZ4 frame of 64 KiB blocks with a checksum of its content.
std::string lz4_frame(const std::string& text, LZ4F_blockMode_t mode) {
  LZ4F_preferences_t how{};
  how.frameInfo.blockMode = mode;
  how.frameInfo.blockSizeID = LZ4F_max64KB;
  how.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled;
  std::string out(LZ4F_compressFrameBound(text.size(), &how), '\0');
  out.resize(LZ4F_compressFrame(out.data(), out.size(), text.data(), text.size(), &how));
  return out;
}

std::string snappy_packed(const std::string& text) {
  std::string out;
  snappy::Compress(text.data(), text.size(), &out);
  return out;
}

std::string delta_error(const std::string& packed, bool repeats) {
  data::delta_texts texts(bytes_of(packed), repeats);
  std::string out;
  while (const auto x = texts.next()) out += "[" + std::string(*x) + "]";
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_block_expands_to_the_text_that_its_library_packed) {
  for (const std::string& text : {""s, "abc"s, std::string(300'000, 'x'), words(5'000)}) {
    BOOST_TEST_CONTEXT(text.size() << " bytes") {
      BOOST_TEST((block(lz4_packed(text), text.size()) == text));
      BOOST_TEST((expanded(data::block_codec::snappy, snappy_packed(text), text.size()) == text));
      for (const auto mode : {LZ4F_blockIndependent, LZ4F_blockLinked})
        BOOST_TEST((frame(lz4_frame(text, mode), text.size()) == text));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_block_that_lies_is_named) {
  const auto text = words(500);
  const auto damaged = [](uint64_t bytes) {
    return fmt::format("refused: broken LZ4 block: it is cut off or damaged, or holds more than {} bytes", bytes);
  };
  const auto packed = lz4_packed(text);
  BOOST_TEST(block(packed.substr(0, packed.size() - 1), text.size()) == damaged(text.size()));
  BOOST_TEST(block(packed, text.size() - 1) == damaged(text.size() - 1));
  BOOST_TEST(block(packed, text.size() + 1) ==
             fmt::format("refused: broken LZ4 block: wanted {} bytes, got {}", text.size() + 1, text.size()));
  BOOST_TEST(block("", 10) == damaged(10));
  // The block requests a copy from 2 bytes back, although only one byte precedes.
  BOOST_TEST(block("\x1F"
                   "a\x02\x00\x20\x50"
                   "bcdef"s,
                   45) == damaged(45));
  const auto snapped = snappy_packed(text);
  const auto snappy = [](const std::string& x, uint64_t bytes) {
    return expanded(data::block_codec::snappy, x, bytes);
  };
  BOOST_TEST(snappy(snapped.substr(0, snapped.size() - 1), text.size()) ==
             "refused: broken snappy block: it is cut off or damaged");
  BOOST_TEST(snappy(snapped, text.size() + 1) ==
             fmt::format("refused: broken snappy block: wanted {} bytes, got {}", text.size() + 1, text.size()));
  BOOST_TEST(snappy("\xFF\xFF", 10) == "refused: broken snappy block: its length is cut off");
}

BOOST_AUTO_TEST_CASE(a_length_that_the_packed_bytes_cannot_hold_costs_no_memory) {
  BOOST_TEST(block("\x30"
                   "abc"s,
                   uint64_t{1} << 28) == "refused: broken LZ4 block: 4 packed bytes are too few for 268435456 bytes");
  BOOST_TEST(expanded(data::block_codec::snappy, "\x80\x80\x80\x80\x01 abc"s, uint64_t{1} << 28) ==
             "refused: broken snappy block: 9 packed bytes are too few for 268435456 bytes");
  BOOST_TEST(block("\x30"
                   "abc"s,
                   data::max_block_bytes + 1)
                 .find("at most 536870912 are read") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(lz4_frames_follow_each_other) {
  const auto text = words(2'000);
  const auto whole = lz4_frame(text, LZ4F_blockIndependent);
  const auto skippable = "\x50\x2A\x4D\x18\x03\0\0\0..."s;
  BOOST_TEST((frame(whole + skippable + whole, 2 * text.size()) == text + text));
  BOOST_TEST((frame(skippable + whole, text.size()) == text));
}

BOOST_AUTO_TEST_CASE(lz4_frames_that_lie_are_named) {
  const auto text = words(500);
  const auto whole = lz4_frame(text, LZ4F_blockIndependent);
  const auto refused = [&](const std::string& packed, const std::string& reason) {
    BOOST_TEST(frame(packed, text.size()) == "refused: broken LZ4 block: " + reason);
  };
  const auto changed = [&](size_t at, char to) {
    auto out = whole;
    out.at(at) = to;
    return out;
  };
  refused("some text", "ERROR_frameType_unknown");
  refused("", "it ends in the middle");
  refused(whole.substr(0, 4), "it ends in the middle");
  refused(whole.substr(0, whole.size() / 2), "it ends in the middle");
  refused(whole.substr(0, whole.size() - 1), "it ends in the middle");
  refused(whole + whole, fmt::format("wanted {0} bytes, got more than {0}", text.size()));
  refused(changed(whole.size() - 1, static_cast<char>(whole.back() + 1)), "ERROR_contentChecksum_invalid");
  refused(changed(6, static_cast<char>(whole[6] + 1)), "ERROR_headerChecksum_invalid");
  refused(changed(4, static_cast<char>(whole[4] | 1)), "it needs a dictionary, which is not supported");
}

BOOST_AUTO_TEST_CASE(delta_encoded_texts_are_read_to_the_last_and_no_further) {
  // The three lengths are 2, 1 and 3, encoded as 2 and the differences -1 and 2 to the least difference -1, with bit
  // widths 2, 0, 0, 0.
  const std::string lengths = "\x80\x01\x04\x03\x04\x01\x02\0\0\0\x0C\0\0\0\0\0\0\0"s;
  BOOST_TEST(delta_error(lengths + "abcdef", false) == "[ab][c][def]");
  BOOST_TEST(delta_error(lengths + "abcde", false) == "[ab][c]");
  BOOST_TEST(delta_error(lengths.substr(0, lengths.size() - 1) + "", false).empty());
  // The texts repeat 0, 2 and 1 bytes of the previous text.
  const std::string repeated = "\x80\x01\x04\x03\x00\x01\x02\0\0\0\x03\0\0\0\0\0\0\0"s;
  BOOST_TEST(delta_error(repeated + lengths + "abcdef", true) == "[ab][abc][adef]");
  // The first text has no previous text whose bytes it could repeat.
  BOOST_TEST(delta_error(lengths + lengths + "abcdef", true).empty());
  for (const std::string& broken :
       {"\x81\x01\x04\x01\x00"s, "\x80\x01\x00\x01\x00"s, "\x80\x01\x05\x01\x00"s, "\x80\x01\x08\x01\x00"s,
        "\x00\x04\x01\x00"s, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"s})
    BOOST_TEST_CONTEXT(broken) BOOST_TEST(delta_error(broken + "ab", false).empty());
}

BOOST_AUTO_TEST_SUITE_END()
