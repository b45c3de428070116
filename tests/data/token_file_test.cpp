// Tests that the description of a `.bin` file is used only if it matches the file.
#include "data/token_file.hpp"

#include <random>
#include <utility>

#include "data/token_stream.hpp"
#include "tests/data/text.hpp"
#include "tests/data/tokenizers/tokenizers.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(token_file)

using namespace troupe;
using namespace troupe::tests;

namespace {

/// A file of tokens and its description file.
struct described_file {
  scratch_folder at;
  std::filesystem::path path;
  data::token_file about;
  explicit described_file(const std::vector<uint16_t>& tokens, uint64_t documents = 1) {
    path = at.write("in/t.bin", as_bytes(tokens));
    about = {tokenizer_of("gpt2")->description(), fixture_path("gpt2").string(), data::bin_width::u16, tokens.size(),
             documents};
    describe();
  }
  void describe() const { at.write("in/t.bin.json", data::as_text(about)); }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_description_reads_back) {
  const described_file f({1, 2, 531}, 1);
  const auto got = data::read_token_file(f.path, 6);
  BOOST_REQUIRE(got);
  BOOST_REQUIRE(*got);
  BOOST_TEST(data::as_text(**got) == data::as_text(f.about));
  BOOST_TEST(!data::read_token_file(f.at / "in/other.bin", 6)->has_value());
}

BOOST_AUTO_TEST_CASE(documents_begin_behind_the_end_of_text) {
  described_file f({1, 2, 531, 3, 531, 531, 4, 531}, 4);
  for (const auto& path : {f.path, f.at / "in"}) {  // the description file is not read as a text of the folder
    const auto stream = opened({.path = path, .vocab_size = 532, .keep_documents = true});
    BOOST_TEST(stream->documents() == 4U);
    BOOST_TEST(!stream->tokens_are_bytes());
    std::vector<uint32_t> starts(8);
    stream->document_starts(0, all_tokens(*stream), starts);
    BOOST_TEST(starts == (std::vector<uint32_t>{0, 0, 0, 3, 3, 5, 6, 6}), boost::test_tools::per_element());
  }
  f.about.tokenizer.end_of_text.reset();
  f.describe();
  check_refused({.path = f.path, .vocab_size = 532, .keep_documents = true}, error_kind::bad_input,
                "holds 4 documents without an end-of-text token");
}

BOOST_AUTO_TEST_CASE(a_described_file_without_tokens_has_no_document) {
  const described_file f({1, 2, 531, 3, 531}, 2);
  auto none = f.about;
  none.tokens = none.documents = 0;
  f.at.write("in/a.bin", "");
  f.at.write("in/a.bin.json", data::as_text(none));
  BOOST_TEST(opened({.path = f.at / "in", .vocab_size = 532})->documents() == 2U);
}

BOOST_AUTO_TEST_CASE(the_width_is_the_descriptions) {
  described_file f({1, 0, 2, 0});
  f.about.width = data::bin_width::u32;
  f.about.tokens = 2;
  f.describe();
  const auto stream = opened({.path = f.path, .bin = data::bin_width::u16, .vocab_size = 532});
  BOOST_TEST(all_tokens(*stream) == (std::vector<int64_t>{1, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(descriptions_that_do_not_fit_are_refused) {
  described_file f({1, 2, 3});
  f.about.tokens = 4;
  f.describe();
  check_refused({.path = f.path, .vocab_size = 532}, error_kind::bad_input,
                "has 6 bytes, wanted the 4 tokens of uint16");
  f.about.tokens = 3;
  f.describe();
  check_refused({.path = f.path, .vocab_size = 560, .tokens_of = tokenizer_of("bpe.model")}, error_kind::bad_input,
                "but the requested tokenizer is another sentencepiece (560 tokens)");
  opened({.path = f.path, .vocab_size = 532, .tokens_of = tokenizer_of("gpt2")});
  for (const char* wrong : {"", "{", "[]", "{\"format\": \"other\"}", "{\"format\": \"troupe tokens\", \"version\": 2}",
                            "{\"format\": \"troupe tokens\", \"version\": 1}"}) {
    f.at.write("in/t.bin.json", wrong);
    check_refused({.path = f.path, .vocab_size = 532}, error_kind::bad_input, "t.bin.json' does not describe tokens");
  }
}

BOOST_AUTO_TEST_CASE(a_packed_file_keeps_the_description_of_the_file_that_was_packed) {
  const described_file f({1, 2, 531}, 1);
  const auto packed = f.at.write("packed/t.bin.gz", gzip(as_bytes<uint16_t>({1, 2, 531})));
  f.at.write("packed/t.bin.json", data::as_text(f.about));
  for (const auto& path : {packed, f.at / "packed"}) {  // the description file is not read as a text of the folder
    const auto stream = opened({.path = path, .vocab_size = 532, .keep_documents = true});
    BOOST_TEST(stream->documents() == 1U);
    BOOST_TEST(stream->maker().value().tokenizer.digest == f.about.tokenizer.digest);
    check_refused({.path = path, .vocab_size = 560, .tokens_of = tokenizer_of("bpe.model")}, error_kind::bad_input,
                  "t.bin.gz' holds tokens of gpt2");
  }
  f.at.write("packed/t.bin.gz.json", "{}");
  check_refused({.path = packed, .vocab_size = 532}, error_kind::bad_input, "t.bin.gz.json' does not describe tokens");
}

BOOST_AUTO_TEST_CASE(described_tokens_are_compared_with_a_tokenizer_that_is_given) {
  described_file f({1, 2, 531}, 1);
  check_refused({.path = f.path, .vocab_size = 532, .tokens_of = data::make_byte_tokenizer()}, error_kind::bad_input,
                "but the requested tokenizer is bytes (256 tokens)");
  f.about.tokenizer.end_of_text = 5;
  f.describe();
  opened({.path = f.path, .vocab_size = 532});
  check_refused({.path = f.path, .vocab_size = 532, .tokens_of = tokenizer_of("gpt2")}, error_kind::bad_input,
                "ends its documents with token 5, but the requested tokenizer with token 531");
  f.about.tokenizer.end_of_text.reset();
  f.describe();
  check_refused({.path = f.path, .vocab_size = 532, .tokens_of = tokenizer_of("gpt2")}, error_kind::bad_input,
                "ends its documents with no token, but the requested tokenizer with token 531");
}

BOOST_AUTO_TEST_CASE(a_folder_with_tokens_of_two_tokenizers_is_refused_with_both_files) {
  described_file f({1, 2, 531}, 1);
  f.at.write("in/u.bin", as_bytes<uint16_t>({1, 2, 531}));
  f.about.tokenizer.digest = "0123456789abcdef";
  f.at.write("in/u.bin.json", data::as_text(f.about));
  for (const char* name :
       {"t.bin' holds tokens of gpt2 (532 tokens, digest ", "u.bin' of gpt2 (532 tokens, digest 0123"})
    check_refused({.path = f.at / "in", .vocab_size = 532}, error_kind::bad_input, name);
}

BOOST_AUTO_TEST_CASE(a_description_with_the_digest_of_the_files_is_of_the_same_tokenizer) {
  described_file f({1, 2, 531}, 1);
  auto earlier = f.about;
  earlier.tokenizer.digest = std::exchange(earlier.tokenizer.file_digest, "");
  BOOST_TEST(earlier.tokenizer.digest != f.about.tokenizer.digest);
  f.at.write("in/u.bin", as_bytes<uint16_t>({1, 2, 531}));
  f.at.write("in/u.bin.json", data::as_text(earlier));
  opened({.path = f.at / "in", .vocab_size = 532});
  opened({.path = f.at / "in", .vocab_size = 532, .tokens_of = tokenizer_of("gpt2")});
  earlier.tokenizer.digest.clear();
  BOOST_TEST(!data::same_vocabulary(earlier.tokenizer, data::make_byte_tokenizer()->description()));
  BOOST_TEST(!data::same_vocabulary(earlier.tokenizer, f.about.tokenizer));
}

BOOST_AUTO_TEST_CASE(mutated_descriptions_are_read_or_refused) {
  const described_file f({1, 2, 3});
  const auto sound = data::as_text(f.about);
  std::mt19937_64 random(2);
  for (int i = 0; i < 300; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    auto text = sound.substr(0, i % 3 == 0 ? random() % sound.size() : sound.size());
    if (!text.empty()) text[random() % text.size()] = static_cast<char>(random());
    f.at.write("in/t.bin.json", text);
    const auto got = data::open_tokens({.path = f.path, .vocab_size = 532});
    if (!got) BOOST_TEST(got.error().text.find("t.bin") != std::string::npos, got.error().text);
  }
}

BOOST_AUTO_TEST_SUITE_END()
