// Tests sources of tokens, and the sources that are refused.
#include "data/token_stream.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <random>

#include "core/math.hpp"
#include "tests/data/text.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(token_stream)

using namespace troupe;
using namespace troupe::tests;

BOOST_AUTO_TEST_CASE(a_file_that_is_cut_short_is_an_error_where_its_tokens_are_asked_for) {
  const scratch_folder at;
  for (const char* name : {"t.txt", "t.bin"}) {
    BOOST_TEST_INFO_SCOPE(name);
    const auto path = at.write(name, std::string(3 * 4096, 'a'));
    const auto stream = opened({.path = path, .vocab_size = 256 * 256});
    std::filesystem::resize_file(path, 5000);
    std::vector<int64_t> some(100);
    BOOST_TEST(stream->copy(0, some).has_value());
    check_failed(stream->copy(stream->size() - 100, some), core::error_kind::io,
                 path.string() + "': it had 12288 bytes");
  }
}

BOOST_AUTO_TEST_CASE(a_packed_file_that_is_cut_while_it_is_expanded_is_an_error) {
  const scratch_folder at;
  std::string noise(4 << 20, '\0');
  std::mt19937_64 rng(5);
  for (char& c : noise) c = static_cast<char>(rng());
  const auto path = at.write("t.gz", gzip(noise));
  const auto cut = data::open_tokens({.path = path, .watch = [&](const data::reading_progress& p) {
                                        if (p.bytes_done > 0) std::filesystem::resize_file(path, 1000);
                                        return true;
                                      }});
  BOOST_REQUIRE(!cut);
  BOOST_TEST((cut.error().kind == core::error_kind::io));
}

BOOST_AUTO_TEST_CASE(the_bytes_of_a_text_are_its_tokens) {
  const scratch_folder at;
  const auto stream = opened({.path = at.write("a.txt", "caf\xC3\xA9 \xFF")});
  BOOST_TEST(stream->size() == 7U);
  BOOST_TEST(all_tokens(*stream) == (std::vector<int64_t>{'c', 'a', 'f', 0xC3, 0xA9, ' ', 0xFF}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_folder_is_read_in_order_of_its_paths) {
  const scratch_folder at;
  at.write("in/b.txt", "second ");
  at.write("in/a/z.txt", "first ");
  at.write("in/empty.txt", "");
  at.write("in/c.txt.gz", gzip("third"));
  BOOST_TEST(as_text(*opened({.path = at / "in"})) == "first second third");
}

BOOST_AUTO_TEST_CASE(copies_cross_the_borders_of_files_whether_mapped_or_copied) {
  const scratch_folder at;
  std::string whole;
  for (int i = 0; i < 40; ++i) {
    std::string text(i % 13 == 5 ? data::copied_below_bytes + 77 : 50'000 + static_cast<size_t>(i), '\0');
    for (size_t j = 0; j < text.size(); ++j)
      // Makes every byte odd, because a text contains no zeros.
      text[j] = static_cast<char>(core::mix64(whole.size() + j) | 1);
    at.write(fmt::format("in/{}", 100 + i), text);
    whole += text;
  }
  const auto stream = opened({.path = at / "in"});
  BOOST_TEST((as_text(*stream) == whole));
  std::vector<int64_t> some(60'000);
  for (const uint64_t beyond : {whole.size() - 59'999, whole.size() + 1, UINT64_MAX}) {
    BOOST_TEST_INFO_SCOPE("beyond " << beyond);
    check_failed(stream->copy(beyond, some), fmt::format("got 60000 from token {} on", beyond));
  }
  BOOST_TEST(stream->copy(whole.size(), {}).has_value());
  for (uint64_t first = 0; first + some.size() <= whole.size(); first += 49'999) {
    BOOST_TEST_REQUIRE(stream->copy(first, some).has_value());
    for (size_t i = 0; i < some.size(); i += 997)
      BOOST_REQUIRE_EQUAL(some[i], static_cast<unsigned char>(whole[first + i]));
  }
}

BOOST_AUTO_TEST_CASE(tokens_of_16_and_32_bits_are_read_from_a_bin_file) {
  const scratch_folder at;
  const auto narrow = at.write("n.bin", as_bytes<uint16_t>({0, 1, 50256, 65535}));
  BOOST_TEST(all_tokens(*opened({.path = narrow, .vocab_size = 65536})) == (std::vector<int64_t>{0, 1, 50256, 65535}),
             boost::test_tools::per_element());
  const auto wide = at.write("w.bin", as_bytes<uint32_t>({0, 1, 128255}));
  BOOST_TEST(all_tokens(*opened({.path = wide, .bin = data::bin_width::u32, .vocab_size = 128256})) ==
                 (std::vector<int64_t>{0, 1, 128255}),
             boost::test_tools::per_element());
  const auto packed = at.write("p.bin.gz", gzip(as_bytes<uint16_t>({7, 300})));
  BOOST_TEST(all_tokens(*opened({.path = packed, .vocab_size = 301})) == (std::vector<int64_t>{7, 300}),
             boost::test_tools::per_element());
  BOOST_TEST((data::bin_width_from("uint16") == data::bin_width::u16));
  BOOST_TEST((data::bin_width_from("uint32") == data::bin_width::u32));
  BOOST_TEST(!data::bin_width_from("int8"));
}

BOOST_AUTO_TEST_CASE(a_token_outside_the_vocabulary_is_named_with_its_position) {
  const scratch_folder at;
  std::vector<uint16_t> tokens(10'000, 49);
  tokens[9'123] = 50;
  check_refused({.path = at.write("t.bin", as_bytes(tokens)), .vocab_size = 50}, error_kind::bad_input,
                "token 50 at position 9123");
  check_refused({.path = at.write("t.txt", "abz"), .vocab_size = 'z'}, error_kind::bad_input,
                "token 122 at position 2");
  BOOST_TEST(opened({.path = at / "t.txt", .vocab_size = 'z' + 1})->size() == 3U);
}

BOOST_AUTO_TEST_CASE(a_bin_file_of_odd_size_is_refused) {
  const scratch_folder at;
  check_refused({.path = at.write("odd.bin", "abc")}, error_kind::bad_input,
                "3 bytes, which is not a multiple of the 2");
}

BOOST_AUTO_TEST_CASE(sources_without_text_are_refused) {
  const scratch_folder at;
  check_refused({.path = at.write("empty.txt", "")}, error_kind::bad_input, "holds no text");
  std::filesystem::create_directory(at / "hollow");
  check_refused({.path = at / "hollow"}, error_kind::bad_input, "holds no text");
  check_refused({.path = at / "missing.txt"}, error_kind::bad_input, "No such file");
  check_refused({.path = "/dev/null"}, error_kind::bad_input, "a regular file was wanted");
  BOOST_REQUIRE_EQUAL(::mkfifo((at / "pipe").c_str(), 0600), 0);
  check_refused({.path = at / "pipe"}, error_kind::bad_input, "a regular file was wanted");
}

BOOST_AUTO_TEST_CASE(a_folder_of_text_and_tokens_is_refused) {
  const scratch_folder at;
  at.write("in/a.txt", "text");
  at.write("in/b.bin", "bins");
  check_refused({.path = at / "in"}, error_kind::bad_input, "mixes tokens and text");
}

BOOST_AUTO_TEST_CASE(a_link_out_of_the_folder_is_refused_and_one_inside_is_read_once) {
  const scratch_folder at;
  at.write("in/a.txt", "once");
  at.write("secret.txt", "secret");
  at.write("in2/x.txt", "x");
  std::filesystem::create_symlink("a.txt", at / "in" / "b.txt");
  std::filesystem::create_directory_symlink(".", at / "in" / "loop");
  BOOST_TEST(as_text(*opened({.path = at / "in"})) == "once");
  std::filesystem::create_symlink("../secret.txt", at / "in" / "c.txt");
  check_refused({.path = at / "in"}, error_kind::bad_input, "leads out of the data folder");
  std::filesystem::remove(at / "in" / "c.txt");
  // A neighbouring folder whose name begins with the source folder's name is outside of it.
  std::filesystem::create_symlink("../in2/x.txt", at / "in" / "c.txt");
  check_refused({.path = at / "in"}, error_kind::bad_input, "leads out of the data folder");
}

BOOST_AUTO_TEST_SUITE_END()
