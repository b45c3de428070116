// Tests files of tokens without a description file.
#include "data/bare_tokens.hpp"

#include "tests/data/text.hpp"
#include "tests/scratch_folder.hpp"

using namespace troupe;
using namespace troupe::tests;

namespace {

template <class Token>
std::string bare_tokens_below(uint32_t vocabulary, size_t count) {
  std::vector<Token> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<Token>((i * 7919 + 13) % vocabulary);
  return as_bytes(out);
}

std::string behind_a_header(uint32_t magic, uint32_t version, uint32_t count, const std::string& tokens) {
  std::vector<uint32_t> head(256);
  head[0] = magic, head[1] = version, head[2] = count;
  return as_bytes(head) + tokens;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(bare_tokens)

BOOST_AUTO_TEST_CASE(tokens_of_llm_c_are_read_behind_their_header) {
  const scratch_folder at;
  const auto gpt2 =
      at.write("fineweb_train_000001.bin", behind_a_header(20240520, 1, 3, as_bytes<uint16_t>({50256, 1, 7})));
  BOOST_TEST(all_tokens(*opened({.path = gpt2, .vocab_size = 50257})) == (std::vector<int64_t>{50256, 1, 7}),
             boost::test_tools::per_element());
  const auto llama = at.write("llama.bin", behind_a_header(20240801, 7, 2, as_bytes<uint32_t>({128000, 9})));
  BOOST_TEST(all_tokens(*opened({.path = llama, .vocab_size = 128256})) == (std::vector<int64_t>{128000, 9}),
             boost::test_tools::per_element());
  at.write("in/a.bin", behind_a_header(20240520, 1, 2, as_bytes<uint16_t>({5, 6})));
  at.write("in/b.bin.gz", gzip(behind_a_header(20240520, 1, 1, as_bytes<uint16_t>({8}))));
  BOOST_TEST(all_tokens(*opened({.path = at / "in"})) == (std::vector<int64_t>{5, 6, 8}),
             boost::test_tools::per_element());
  check_refused({.path = at.write("cut.bin", behind_a_header(20240520, 1, 4, as_bytes<uint16_t>({1, 2, 3})))},
                error_kind::bad_input, "its llm.c header states 4 tokens of 2 bytes, but 6 bytes follow it");
}

BOOST_AUTO_TEST_CASE(wider_tokens_than_those_asked_for_are_seen) {
  const scratch_folder at;
  const auto narrow = [&](const std::string& bytes, uint64_t vocabulary) {
    return data::source_options{.path = at.write("t.bin", bytes), .vocab_size = vocabulary};
  };
  check_refused(
      narrow(bare_tokens_below<uint32_t>(50257, 1000), 50257), error_kind::bad_input,
      "its tokens look like numbers of 32 bits, since every second number of 16 bits is 0: set data.bin_dtype: uint32");
  check_refused(narrow(bare_tokens_below<uint32_t>(128256, 100'000), 128256), error_kind::bad_input,
                "its tokens look like numbers of 32 bits, since every second number of 16 bits is at most 1");
  check_refused(narrow(bare_tokens_below<int64_t>(50257, 1000), 50257), error_kind::bad_input,
                "its tokens look like numbers of 64 bits");
  auto wide = narrow(bare_tokens_below<int64_t>(50257, 1000), 50257);
  wide.bin = data::bin_width::u32;
  check_refused(wide, error_kind::bad_input,
                "numbers of 64 bits, since every second number of 32 bits is 0: write them as");
  wide = narrow(bare_tokens_below<uint32_t>(50257, 1000), 50257);
  wide.bin = data::bin_width::u32;
  BOOST_TEST(opened(wide)->size() == 1000U);
  for (const uint64_t vocabulary : {uint64_t{256}, uint64_t{50257}, uint64_t{65536}, uint64_t{128256}})
    BOOST_TEST(
        opened(narrow(bare_tokens_below<uint16_t>(uint32_t(std::min<uint64_t>(vocabulary, 65536)), 1000), vocabulary))
            ->size() == 1000U);
  BOOST_TEST(opened(narrow(std::string(4000, '\0'), 256))->size() == 2000U);  // a file may repeat one token
}

BOOST_AUTO_TEST_CASE(the_width_is_seen_whatever_the_vocabulary_and_above_65535) {
  const scratch_folder at;
  for (const uint64_t vocabulary : {uint64_t{65536}, uint64_t{128000}, uint64_t{1} << 32}) {
    for (const uint32_t most : {70'000U, 128'000U, 1U << 20, 1U << 24}) {
      check_refused({.path = at.write("t.bin", bare_tokens_below<int32_t>(most, 400)), .vocab_size = vocabulary},
                    error_kind::bad_input,
                    "its tokens look like numbers of 32 bits, since every second number of 16 bits is at most");
      check_refused({.path = at.write("t.bin", bare_tokens_below<int64_t>(most, 400)), .vocab_size = vocabulary},
                    error_kind::bad_input,
                    "numbers of 64 bits, since every second number of 32 bits is 0: write them as 32-bit ones");
    }
    BOOST_TEST(opened({.path = at.write("t.bin", bare_tokens_below<uint16_t>(65521, 400)), .vocab_size = vocabulary})
                   ->size() == 400U);
  }
  // A label that is left out (-100) has an upper half of ones.
  std::vector<int32_t> labels(400, -100);
  for (size_t i = 0; i < labels.size(); i += 2) labels[i] = static_cast<int32_t>(i * 331);
  check_refused({.path = at.write("t.bin", as_bytes(labels)), .vocab_size = 65536}, error_kind::bad_input,
                "look like numbers of 32 bits");
}

BOOST_AUTO_TEST_CASE(a_width_that_few_tokens_show_is_undecided) {
  const scratch_folder at;
  std::vector<uint32_t> tokens(100, 3);
  for (size_t i = 0; i < 10; ++i) tokens[i] = 70'000;
  const auto path = at.write("t.bin", as_bytes(tokens));
  check_refused({.path = path, .vocab_size = 128'000}, error_kind::bad_input,
                "the width of its tokens is undecided: they look like numbers of 32 bits");
  check_refused({.path = path, .vocab_size = 128'000}, error_kind::bad_input,
                "only 10 are above all others: if they have this width, set data.bin_dtype: uint32");
  BOOST_TEST(opened({.path = path, .bin = data::bin_width::u32, .vocab_size = 128'000})->size() == 100U);
  // Ascending tokens of 16 bits are no tokens of 32 bits.
  std::vector<uint16_t> ascending(5000);
  for (size_t i = 0; i < ascending.size(); ++i) ascending[i] = static_cast<uint16_t>(1 + i % 100);
  BOOST_TEST(opened({.path = at.write("a.bin", as_bytes(ascending))})->size() == 5000U);
}

BOOST_AUTO_TEST_CASE(documents_that_nothing_tells_apart_are_refused_where_they_matter) {
  const scratch_folder at;
  const auto path = at.write("t.bin", bare_tokens_below<uint16_t>(256, 100));
  check_refused({.path = path, .keep_documents = true}, error_kind::bad_input,
                "where its documents begin is unknown, which data.document_mask requires");
  BOOST_TEST(data::sentence_of(opened({.path = path})->summary(), "t.bin") ==
             "'t.bin': 100 tokens, 200 bytes in t.bin; where its documents begin is unknown");
}

BOOST_AUTO_TEST_SUITE_END()
