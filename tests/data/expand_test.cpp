// Tests gzip, dictzip and zstd: valid files, damaged files, and decompression bombs.
#include "data/expand.hpp"

#include <fmt/format.h>
#include <zstd.h>

#include "core/math.hpp"
#include "tests/data/text.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(expand)

using namespace troupe;
using namespace troupe::tests;

namespace {

/// Returns a text of ordinary compressibility that is longer than a block of the expansion.
std::string prose(size_t bytes) {
  std::string out;
  for (uint64_t i = 0; out.size() < bytes; ++i) out += fmt::format("{} words\n", core::mix64(i) % 100'000);
  out.resize(bytes);
  return out;
}

/// Returns one zstd frame, with or without a checksum.
std::string zstd(const std::string& text, bool has_checksum = true, int window_log = 0) {
  const std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> c(ZSTD_createCCtx(), ZSTD_freeCCtx);
  ZSTD_CCtx_setParameter(c.get(), ZSTD_c_checksumFlag, has_checksum ? 1 : 0);
  if (window_log > 0) ZSTD_CCtx_setParameter(c.get(), ZSTD_c_windowLog, window_log);
  std::string out(ZSTD_compressBound(text.size()), '\0');
  // The frame is written as a stream, because a frame of known length may have a smaller window.
  ZSTD_inBuffer in{text.data(), text.size(), 0};
  ZSTD_outBuffer to{out.data(), out.size(), 0};
  ZSTD_compressStream2(c.get(), &to, &in, ZSTD_e_continue);
  BOOST_REQUIRE_EQUAL(ZSTD_compressStream2(c.get(), &to, &in, ZSTD_e_end), 0U);
  out.resize(to.pos);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(zst_gives_back_what_went_in_whatever_its_blocks) {
  const scratch_folder at;
  for (const size_t bytes : {size_t{0}, size_t{1}, data::expand_block_bytes - 1, data::expand_block_bytes,
                             2 * data::expand_block_bytes, 3 * data::expand_block_bytes + 17})
    for (const bool has_checksum : {true, false}) {
      BOOST_TEST_INFO_SCOPE("has checksum " << has_checksum);
      const std::string text = "begin " + prose(bytes), same(bytes, 'x');
      BOOST_TEST((as_text(*opened({.path = at.write("a.zst", zstd(text, has_checksum))})) == text), bytes);
      BOOST_TEST((as_text(*opened({.path = at.write("a.zst", zstd(" " + same, has_checksum))})) == " " + same), bytes);
    }
}

BOOST_AUTO_TEST_CASE(frames_of_zstd_follow_one_another_and_nothing_else_does) {
  const scratch_folder at;
  const std::string skipped("\x50\x2A\x4D\x18\x03\0\0\0xyz", 11);
  const std::string frames = zstd("one ") + zstd("") + skipped + zstd("two ", false) + zstd("three");
  BOOST_TEST(as_text(*opened({.path = at.write("m.zst", frames)})) == "one two three");
  BOOST_TEST(as_text(*opened({.path = at.write("m.zst", frames + skipped)})) == "one two three");
  check_refused({.path = at.write("g.zst", frames + "garbage")}, error_kind::bad_input,
                "g.zst' is not a valid zstd file");
  check_refused({.path = at.write("z.zst", frames + std::string(512, '\0'))}, error_kind::bad_input,
                "not a valid zstd");
  const auto lines =
      opened({.path = at.write("l.jsonl.zst", zstd("{\"text\": \"a\"}\n{\"te") + zstd("xt\": \"b\"}\n"))});
  BOOST_TEST(lines->documents() == 2U);
}

BOOST_AUTO_TEST_CASE(a_zst_that_is_cut_or_damaged_is_refused_by_name) {
  const scratch_folder at;
  const std::string text = prose(5000), packed = zstd(text);
  for (size_t n = 0; n < packed.size(); n += 1 + n / 37)
    check_refused({.path = at.write("cut.zst", packed.substr(0, n))}, error_kind::bad_input,
                  "cut.zst' is not a valid zstd");
  check_refused({.path = at.write("cut.zst", zstd("whole") + packed.substr(0, packed.size() - 1))},
                error_kind::bad_input, "ends in the middle");
  for (size_t i = 8; i < packed.size(); i += 1 + packed.size() / 60) {
    std::string broken = packed;
    broken[i] = static_cast<char>(broken[i] ^ 0x24);
    check_refused({.path = at.write("bad.zst", broken)}, error_kind::bad_input, "not a valid zstd");
  }
  check_refused({.path = at.write("plain.zst", text)}, error_kind::bad_input, "Unknown frame descriptor");
  check_refused({.path = at.write("wide.zst", zstd(text, true, 28))}, error_kind::bad_input, "too much memory");
}

BOOST_AUTO_TEST_CASE(a_bomb_of_zstd_stops_at_the_limit) {
  const scratch_folder at;
  const auto bomb = at.write("bomb.zst", zstd(std::string(16 << 20, 'x')));
  check_refused({.path = bomb, .max_bytes = 1 << 20}, error_kind::limit, "data.max_bytes");
  BOOST_TEST(opened({.path = bomb, .max_bytes = 16 << 20})->size() == 16U << 20);
}

BOOST_AUTO_TEST_CASE(gz_and_dz_give_back_what_went_in) {
  const scratch_folder at;
  const std::string text = prose(3 * data::expand_block_bytes + 17);
  BOOST_TEST((as_text(*opened({.path = at.write("a.gz", gzip(text))})) == text));
  BOOST_TEST((as_text(*opened({.path = at.write("a.dz", gzip(text, "RA\x04\x00\x01\x00\x00\x00"))})) == text));
}

BOOST_AUTO_TEST_CASE(members_follow_one_another_and_zeros_may_pad_the_end) {
  const scratch_folder at;
  const std::string members = gzip("one ") + gzip("") + gzip("two ") + gzip("three");
  BOOST_TEST(as_text(*opened({.path = at.write("m.gz", members)})) == "one two three");
  BOOST_TEST(as_text(*opened({.path = at.write("z.gz", members + std::string(512, '\0'))})) == "one two three");
  check_refused({.path = at.write("g.gz", members + "garbage")}, error_kind::bad_input, "not a valid gzip");
}

BOOST_AUTO_TEST_CASE(a_file_that_ends_too_early_is_refused_wherever_it_was_cut) {
  const scratch_folder at;
  const std::string packed = gzip(prose(2000), "extra field");
  for (size_t n = 0; n < packed.size(); n += 1 + n / 37)
    check_refused({.path = at.write("cut.gz", packed.substr(0, n))}, error_kind::bad_input, "not a valid gzip");
  check_refused({.path = at.write("cut.gz", gzip("whole") + packed.substr(0, packed.size() - 1))},
                error_kind::bad_input, "ends in the middle");
}

BOOST_AUTO_TEST_CASE(damage_in_the_text_is_found) {
  const scratch_folder at;
  const std::string text = prose(5000);
  const std::string packed = gzip(text);
  // The first bytes are skipped, because the header's time and system do not affect the text.
  for (size_t i = 10; i < packed.size(); i += 1 + packed.size() / 60) {
    std::string broken = packed;
    broken[i] = static_cast<char>(broken[i] ^ 0x24);
    check_refused({.path = at.write("bad.gz", broken)}, error_kind::bad_input, "not a valid gzip");
  }
  check_refused({.path = at.write("plain.gz", text)}, error_kind::bad_input, "incorrect header check");
}

BOOST_AUTO_TEST_CASE(a_bomb_stops_at_the_limit_and_leaves_nothing_behind) {
  const scratch_folder at;
  const auto scratch = at / "expanded";
  std::filesystem::create_directory(scratch);
  const auto bomb = at.write("bomb.gz", gzip(std::string(64 << 20, 'x')));
  check_refused({.path = bomb, .max_bytes = 1 << 20, .scratch = scratch}, error_kind::limit, "data.max_bytes");
  BOOST_TEST(opened({.path = bomb, .max_bytes = 64 << 20, .scratch = scratch})->size() == 64U << 20);
  BOOST_TEST(std::filesystem::is_empty(scratch));
}

BOOST_AUTO_TEST_CASE(the_limit_counts_all_files_of_a_folder) {
  const scratch_folder at;
  at.write("in/a.gz", gzip(std::string(600, 'a')));
  at.write("in/b.gz", gzip(std::string(600, 'b')));
  check_refused({.path = at / "in", .max_bytes = 1199}, error_kind::limit, "b.gz");
  BOOST_TEST(opened({.path = at / "in", .max_bytes = 1200})->size() == 1200U);
  at.write("plain/a.txt", std::string(600, 'a'));
  at.write("plain/b.txt", std::string(600, 'b'));
  check_refused({.path = at / "plain", .max_bytes = 1199}, error_kind::limit,
                "b.txt' has 600 bytes, more than the 599");
  BOOST_TEST(opened({.path = at / "plain", .max_bytes = 1200})->size() == 1200U);
}

BOOST_AUTO_TEST_CASE(the_limit_holds_for_text_that_is_not_packed) {
  const scratch_folder at;
  const auto text = at.write("a.txt", std::string(600, 'a'));
  check_refused({.path = text, .max_bytes = 599}, error_kind::limit,
                "a.txt' has 600 bytes, more than the 599 that remain of data.max_bytes (--max-bytes): raise it");
  BOOST_TEST(opened({.path = text, .max_bytes = 600})->size() == 600U);
  check_refused({.path = at.write("a.jsonl", "{\"text\": \"a\"}\n"), .max_bytes = 12}, error_kind::limit,
                "has 14 bytes");
  const auto tokens = at.write("a.bin", std::string(600, '\1'));  // files of tokens are not expanded
  BOOST_TEST(opened({.path = tokens, .max_bytes = 1, .vocab_size = 65536})->size() == 300U);
}

BOOST_AUTO_TEST_CASE(a_scratch_folder_that_cannot_be_written_is_named) {
  const scratch_folder at;
  check_refused({.path = at.write("a.gz", gzip("text")), .scratch = at / "nowhere"}, error_kind::io, "nowhere");
}

BOOST_AUTO_TEST_CASE(the_default_corpus_is_english_prose,
                     *boost::unit_test::precondition([](boost::unit_test::test_unit_id) {
                       return std::filesystem::exists("/usr/share/dictd/gcide.dict.dz");
                     })) {
  const auto stream = opened({.path = "/usr/share/dictd/gcide.dict.dz"});
  BOOST_TEST(stream->size() > 30'000'000U);
  std::vector<int64_t> some(1'000'000);
  BOOST_TEST_REQUIRE(stream->copy(stream->size() / 2, some).has_value());
  const auto letters = std::count_if(some.begin(), some.end(), [](int64_t t) { return t >= 'a' && t <= 'z'; });
  BOOST_TEST(letters > 500'000);
}

BOOST_AUTO_TEST_SUITE_END()
